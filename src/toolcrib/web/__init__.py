"""The HTTP edge: which URLs there are, who is asking, and how answers and failures look over HTTP."""
