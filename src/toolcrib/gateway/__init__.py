"""The MCP endpoints. Protocol shapes live here and no deeper."""
