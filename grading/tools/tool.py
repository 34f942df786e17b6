"""What every tool has in common, and how a user's own is found: ``FILE.py:NAME`` of a class or a plain function."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError, validated
from core.model.calls import Call
from core.plugins.config_files import entries, entry
from core.plugins.user_code import function_name, load_function, load_or_explain

GROUP = "luffy.tools"  # entry points of packages
TYPES: Mapping[str, str] = {
    "calculator": "grading.tools.calculator:Calculator",
    "python": "grading.tools.python:Python",
    "sql": "grading.tools.sql:Sql",
    "search": "grading.tools.search:Search",
}
JSON_TYPES = {int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


class Exchange(NamedTuple):
    """A call, and what the policy read after it."""

    call: Call
    observation: str


class Context(NamedTuple):
    """What a call depends on besides the exchanges of its episode: the fields of the row, and the episode's seed."""

    row: Mapping[str, Any]
    seed: int


class ToolError(Exception):
    """A mistake in a call; the policy reads it as an observation."""


class Tool(BaseModel):
    """A tool: its fields are its options, and it has no state.

    ``name`` is how the policy calls it, by default the name of its type. ``memory_mb``: MiB that a call may take.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    wall: ClassVar[float] = 1.0  # a call may take so many times ``seconds``
    name: str = Field("", pattern=r"^\w*$")
    memory_mb: int = Field(1024, ge=64)

    def schema(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]  of pydantic 1
        """Return what the policy's prompt says of the tool; see `function_schema`."""
        raise NotImplementedError

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        """Return the observation of a call.

        Args:
            history: the earlier exchanges of the episode, of all tools.

        Raises:
            ToolError: a mistake in the call.
        """
        raise NotImplementedError

    def limited(self, seconds: float) -> "Tool":
        """Return the tool as it runs where a call may take ``seconds``."""
        return self

    def prepare(self) -> None:
        """Load what calls need, before the first one; InputError if the tool cannot run here."""


def function_schema(tool: Tool, **arguments: str) -> dict[str, Any]:
    """Return the schema of a tool of texts: its docstring says what it does, ``arguments`` what they mean."""
    properties = {name: {"type": "string", "description": text} for name, text in arguments.items()}
    return schema_of(tool.name, inspect.getdoc(type(tool)) or "", properties)


def schema_of(name: str, description: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class FunctionTool(Tool):
    """A plain function of the user's; its arguments and docstring are the schema."""

    path: str

    def schema(self) -> dict[str, Any]:
        function, types = self._function, get_type_hints(self._function)
        names = inspect.signature(function).parameters
        properties = {name: {"type": JSON_TYPES.get(types.get(name, str), "string")} for name in names}
        return schema_of(self.name, inspect.getdoc(function) or "", properties)

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        return str(self._function(**call.arguments))

    @property
    def _function(self) -> Callable[..., Any]:
        return load_function(self.path)


def open_tool(spec: Mapping[str, Any], where: str = "tools.use") -> Tool:
    """Return the tool of ``spec``: its ``type`` and its options.

    Raises:
        InputError: an unknown type or option, or a file of the user's that cannot be imported.
    """
    kind, options = spec.get("type"), {key: value for key, value in spec.items() if key != "type"}
    path = tool_path(kind)
    if path is None:
        names = ", ".join([*TYPES, *entries(GROUP)])
        raise InputError(f"{where}: type: got {kind!r:.80}, expected one of {names}, or FILE.py:NAME")
    found = load_or_explain(path, where)
    name = function_name(path).lower()
    if isinstance(found, type) and issubclass(found, Tool):
        return validated(found, {"name": kind if kind in TYPES else name, **options}, f"{where} ({kind}): ")
    return validated(FunctionTool, {"name": name, **options, "path": path}, f"{where} ({kind}): ")


def tool_path(kind: Any) -> str | None:
    """Return ``module:object`` of a type; None for one that does not exist."""
    if not isinstance(kind, str):
        return None
    return TYPES.get(kind) or (kind if ":" in kind else entry(GROUP, kind))
