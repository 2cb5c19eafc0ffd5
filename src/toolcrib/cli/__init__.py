"""The `toolcrib` command: parses, calls, prints, and knows nothing else.

Remote verbs go over `client.rest`; only `serve`, `up` and `migrate` load the server.
"""
