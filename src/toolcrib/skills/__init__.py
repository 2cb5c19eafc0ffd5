"""Skills: named, versioned bundles of instructions and files, and how agents get them.

Knows the Agent Skills format and our storage; nothing of toolboxes, HTTP or MCP framing.
"""
