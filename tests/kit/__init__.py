"""The faulty-upstream kit: one scriptable MCP server whose behaviour is data, over HTTP and over stdio.

    async with faulty_upstream(tools=[Tool("echo"), Tool("boom", does="die")], eras=("legacy",)) as up:
        up.url, up.executions["boom"], up.set_tools([...]), up.forget_sessions(), await up.stop(), await up.start()

    command = stdio_twin(tools=[Tool("echo")], noise=True)      # a toolcrib StdioCommand

`Tool.does` and `Behaviour` list everything it can be told to do.
"""

from tests.kit.http_twin import FaultyUpstream, faulty_upstream
from tests.kit.script import Behaviour, Script, Tool
from tests.kit.stdio_twin import stdio_twin

__all__ = ["Behaviour", "FaultyUpstream", "Script", "Tool", "faulty_upstream", "stdio_twin"]
