"""The settings ``tools``: which tools a policy may call, in which format, and within which limits."""

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from core.code_digest import identity
from core.errors import InputError, validated
from core.files import digest_file
from core.model.calls import Format, Schema
from core.model.prompts import CHAT, ChatTokenizer, Template
from core.plugins.user_code import function_file, user_code_digest
from core.settings import Section, UserPath, user_path
from grading.tools.tool import TYPES, Tool, open_tool, tool_path


def _located(value: Any, folder: Path) -> Any:
    """Return a tool's options with the paths in it as absolute ones; a text is the type of a tool without options."""
    value = {"type": value} if isinstance(value, str) else value
    if not isinstance(value, dict):
        return value
    return {key: part if key == "name" else user_path(part, folder) for key, part in value.items()}


class ToolSettings(Section):
    """The tools that a policy may call, and the limits of an episode."""

    use: list[Annotated[dict[str, Any], UserPath(_located)]] = Field(
        min_length=1,
        description="The tools: calculator, {type: python, name: code, memory_mb: 512}, {type: sql, database: "
        "shop.db}, {type: search, folder: texts}, or your own class or function, {type: FILE.py:NAME}.",
    )
    format: Literal["auto", "hermes", "llama", "tags"] = Field(
        default="auto", description="How a turn calls a tool; auto: as the policy's chat template writes it."
    )
    turns: int = Field(default=8, ge=2, description="Maximum number of turns of an episode.")
    calls: int = Field(default=4, ge=1, description="Maximum number of calls of a turn; the others are not made.")
    seconds: float = Field(default=5.0, gt=0, description="Seconds that a call may take.")
    observation_chars: int = Field(
        default=1000, ge=10, description="Maximum length of an observation; the middle of a longer one is left out."
    )
    replay: bool = Field(
        default=True,
        description="Make the calls of each target again, and reject it if a tool says something else. false: training "
        "can use whole targets only.",
    )
    compare: Literal["text", "numbers"] = Field(
        default="text",
        description="When the observation of a target equals the tool's: text (blanks aside), or numbers (to 1e-6).",
    )

    @field_validator("use")
    @classmethod
    def _open(cls, use: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            names = [open_tool(spec, f"tools.use[{number}]").name for number, spec in enumerate(use)]
        except InputError as error:
            raise ValueError(str(error)) from None
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two tools have the name {twice[0]!r}: give one of them another name")
        return use

    def tools(self) -> list[Tool]:
        """Return the tools, with their limits."""
        return [open_tool(spec).limited(self.seconds) for spec in self.use]

    def schemas(self) -> list[Schema]:
        """Return the schemas of the tools."""
        return list(self._schemas)

    @cached_property
    def _schemas(self) -> list[Schema]:
        return [tool.schema() for tool in self.tools()]

    def template(self, tokenizer: ChatTokenizer, template: Template = CHAT) -> Template:
        """Return ``template`` with the tools; raises as `format_of` does."""
        return replace(template, tools=self.schemas(), calls=self.format_of(tokenizer))

    def format_of(self, tokenizer: ChatTokenizer) -> Format:
        """Return the format of calls for the chat template of a model.

        Raises:
            InputError: the template shows no tools, or it writes another format than ``format``.
        """
        text, model = str(tokenizer.chat_template or ""), tokenizer.name_or_path
        shows = "tools" in text
        written: Format = "llama" if '"parameters"' in text and "<tool_call>" not in text else "hermes"
        if not shows and self.format != "tags":
            raise InputError(
                f"{model}: its chat template shows no tools: describe them in targets.system_prompt and set "
                "tools.format: tags"
            )
        if self.format in ("auto", "tags"):
            return "tags" if self.format == "tags" else written
        if self.format != written:
            raise InputError(
                f"tools.format: {self.format}, but the template of {model} writes {written}: leave it at auto"
            )
        return self.format

    def digest(self) -> str:
        """Return the sha256 over the settings, and over the content of the files that the tools name."""
        files = {value: _content(value) for spec in self.use for value in spec.values() if isinstance(value, str)}
        values = json.loads(self.model_dump_json())
        values["use"] = [{key: files.get(str(value)) or value for key, value in spec.items()} for spec in self.use]
        return identity(json.dumps(values, sort_keys=True))

    def record(self) -> str:
        """Return the settings with their digest as JSON, which files of targets keep; `read_tools` reads it."""
        return json.dumps({"settings": self.model_dump(mode="json"), "digest": self.digest()}, sort_keys=True)


def read_tools(record: str, where: str) -> ToolSettings:
    """Return the settings of a `ToolSettings.record`; InputError if a file that they name has changed."""
    kept = json.loads(record)
    settings = validated(ToolSettings, kept["settings"], f"{where}: tools: ")
    if settings.digest() != kept["digest"]:
        raise InputError(
            f"{where}: the tools are not those that the targets were prepared with: a file that they name has changed; "
            "prepare the targets again"
        )
    return settings


def _content(value: str) -> str | None:
    """Return the digest of a file, of a folder's files, or of a class or function; None for every other text."""
    if ":" in value and value not in TYPES and tool_path(value):
        return user_code_digest(function_file(value))
    path = Path(value)
    if path.is_file():
        return digest_file(path)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_absolute() and path.is_dir() else []
    return identity(*(f"{file.relative_to(path)} {digest_file(file)}" for file in files)) if files else None
