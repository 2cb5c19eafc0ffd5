"""Deferred tools in each provider's and framework's own form: one module each, imported only when you import it.

Every module has the same two doors: `defer(...)` wraps tools you have, `toolbox(...)` points at a toolcrib toolbox.
"""
