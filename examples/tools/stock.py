"""A tool of one's own: `{type: examples/tools/stock.py:Stock, file: stock.csv}` in tools.use. See docs/tools.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grading.tools.tool import Call, Context, Exchange, Tool, ToolError, function_schema


class Stock(Tool):
    """How many pieces of an article are left."""

    file: str  # lines of "article,pieces"

    def schema(self) -> dict[str, Any]:
        return function_schema(self, article="name of the article")

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        lines = Path(self.file).read_text().splitlines()
        left = {name: int(pieces) for name, pieces in (line.split(",") for line in lines)}
        if (article := call.arguments.get("article")) not in left:
            raise ToolError(f"no article {article!r}")
        return str(left[article] - sum(one.call == call for one in history))  # each earlier call took one piece
