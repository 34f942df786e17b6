"""Python in a sandbox that reaches nothing. The cells of an episode share their variables."""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from pydantic import Field

from core.model.calls import Call
from grading.isolation.sandbox import WALL, Bubblewrap, Limits
from grading.tools.tool import Context, Exchange, Tool, ToolError, function_schema

# The cells before the last one run again, silently; the value of an expression at the end of a cell is printed.
RUNNER = """
import ast, contextlib, io, random
cells, seed = {cells!r}, {seed!r}
names = {{"__name__": "__main__"}}
def run(cell, echo):
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    if echo and value is not None:
        print(repr(value))
random.seed(seed)
for cell in cells[:-1]:
    with contextlib.suppress(Exception, SystemExit), contextlib.redirect_stdout(io.StringIO()):
        run(cell, echo=False)
run(cells[-1], echo=True)
"""


@cache
def sandbox_of(limits: Limits) -> Bubblewrap:
    return Bubblewrap(limits)


class Python(Tool):
    """Runs a cell of Python and returns what it prints. Cells share their variables. There is no network, no disk."""

    wall: ClassVar[float] = WALL + 1.0
    memory_mb: int = Field(512, ge=64)
    processes: int = Field(16, ge=1)
    seconds: float = Field(5.0, gt=0)

    def schema(self) -> dict[str, Any]:
        return function_schema(self, code="a cell of Python")

    def limited(self, seconds: float) -> "Python":
        return self.model_copy(update={"seconds": seconds})

    @property
    def limits(self) -> Limits:
        return Limits(self.seconds, self.memory_mb << 20, self.processes)

    def prepare(self) -> None:
        sandbox_of(self.limits)

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        code = call.arguments.get("code")
        if not isinstance(code, str):
            raise ToolError("expected a text as code")
        earlier = [one.call.arguments.get("code") for one in history if one.call.name == self.name]
        cells = [*filter(lambda cell: isinstance(cell, str), earlier), code]
        ended = sandbox_of(self.limits).run(RUNNER.format(cells=cells, seed=context.seed), "")
        return ended.stdout + (f"error: {ended.problem}" if ended.problem else "")
