"""The weights of toolcrib's transformer, as data: this package holds files and no code."""
