"""toolcrib: the tool crib for agents. Importing this loads nothing but the version."""

__version__ = "0.1.0.dev0"
