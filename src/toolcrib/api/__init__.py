"""REST management: one module per resource, handlers of a few lines, no decisions of their own."""
