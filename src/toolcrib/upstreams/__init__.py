"""Where calls really go: one face (`upstream`), one pool in front of it, one module per kind behind it.

Knows nothing of toolboxes, catalogs or of how a client is answered.
"""
