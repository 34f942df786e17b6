"""The worker program that makes the calls of one tool.

``python -m grading.tools.worker SPEC SECONDS MEMORY LIMIT``: SPEC is the tool as JSON, SECONDS the limit that
it keeps itself, MEMORY the bytes of a call, and LIMIT the seconds after which its process is ended.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from core.errors import first_line
from core.model.calls import Call
from grading.isolation.sandbox import SandboxFailed
from grading.tools.tool import Context, Exchange, Tool, ToolError, open_tool
from grading.worker_program import Reply, serve


def call(tool: Tool, request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the observation of a call, or what was wrong with it: whatever it raises is the policy's mistake."""
    history = [Exchange(Call(name, arguments), text) for name, arguments, text in request["history"]]
    try:
        context = Context(request["row"], request["seed"])
        return "observation", str(tool.run(Call(request["name"], request["arguments"]), history, context))
    except ToolError as error:
        return "error", str(error)
    except SandboxFailed as error:
        return "failed", str(error)
    except (Exception, SystemExit) as error:
        return "error", f"{type(error).__name__}: {first_line(error)}"


def main(spec: str, seconds: float, memory: int, limit_s: float) -> None:
    """Open the tool, or say why it cannot be, and serve calls."""

    def prepare() -> Reply:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        tool = open_tool(json.loads(spec)).limited(seconds)
        tool.prepare()
        return lambda request: call(tool, request)

    serve(limit_s, prepare, memory=memory, renewed=memory // 2)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
