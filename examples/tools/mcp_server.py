"""A tool of an MCP server: `{type: mcp_server.py:McpServer, name: take, command: [python, shop.py]}` in tools.use.

It needs `pip install "mcp>=2"` in `.venv` and `.venv-train`. A call must follow from the calls before it alone, and a
server has state: each call starts the server anew and repeats the earlier calls of the episode.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mcp import Client, StdioServerParameters

from grading.tools.tool import Call, Context, Exchange, Tool, ToolError


class McpServer(Tool):
    """The tool called ``name`` of the server that ``command`` starts."""

    command: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        return {"type": "function", "function": dict(_described(self.command, self.name))}

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        earlier = [one.call for one in history if one.call.name == self.name and not one.call.problem]
        return asyncio.run(_answer(self.command, [*earlier, call]))


@cache
def _described(command: tuple[str, ...], name: str) -> Mapping[str, Any]:
    async def ask() -> Mapping[str, Any]:
        async with _client(command) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        if name not in tools:
            raise ValueError(f"{' '.join(command)}: no tool {name!r}; the server has {', '.join(tools)}")
        return {"name": name, "description": tools[name].description or "", "parameters": tools[name].input_schema}

    return asyncio.run(ask())


async def _answer(command: tuple[str, ...], calls: Sequence[Call]) -> str:
    async with _client(command) as client:
        for call in calls:
            result = await client.call_tool(call.name, dict(call.arguments))
    text = "\n".join(part.text for part in result.content if part.type == "text")
    if result.is_error:
        raise ToolError(text)
    return text


def _client(command: tuple[str, ...]) -> Client:
    return Client(StdioServerParameters(command=command[0], args=list(command[1:])))
