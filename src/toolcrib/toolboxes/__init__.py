"""The heart: a named, versioned set of tools, and what can be done with it."""
