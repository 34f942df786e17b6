"""Render the chat template of a model's folder as transformers does, but without transformers.

You chose the model, so its template is not taken for an attack: Jinja's sandbox keeps it from our objects, and a text
that grows without end is stopped, but a template that loops in silence or asks for all memory is not.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core.errors import InputError, first_line
from core.model.prompts import CHAT, TEMPLATE_KWARGS, Messages, messages, render_prompt
from core.model.special_tokens import special_tokens, tokenizer_settings

ADDED_CHARACTERS = 1 << 20  # the most that a template may add to a conversation
REPEATS = 4  # how often it may repeat the conversation's own text
# Variables of a template that its caller fills in.
FILLED_IN = ("messages", "add_generation_prompt", "tools", "documents")


class GenerationBlock(Extension):
    """``{% generation %}``, with which templates mark what the model writes: here it renders what it holds.

    transformers calls the block as a macro, too; so names that are set in it end with it.
    """

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Macro) -> str:
        return caller()


class ChatTemplate:
    """The chat template of a tokenizer's folder.

    Raises InputError for a ``tokenizer_config.json`` that is not JSON or a template that is not Jinja.
    """

    def __init__(self, folder: Path) -> None:
        self.name_or_path = str(folder)
        self.chat_template = _template_text(folder)
        self._special = special_tokens(folder)
        self.eos_token = self._special.get("eos_token")
        self._compiled = _compile(self.chat_template, folder) if self.chat_template else None

    def apply_chat_template(
        self, conversation: Messages, *, tokenize: bool = False, add_generation_prompt: bool = True, **kwargs: Any
    ) -> str:
        """Return the text of ``conversation``; it has the signature of a transformers tokenizer and cannot tokenize.

        Raises:
            ValueError: the text is longer than any prompt.
        """
        assert self._compiled is not None and not tokenize
        values = {**self._special, **kwargs, "messages": list(conversation)}
        text = self._compiled.generate(add_generation_prompt=add_generation_prompt, **values)
        return _joined(text, ADDED_CHARACTERS + REPEATS * len(str(conversation)))

    def variables(self) -> set[str]:
        """Return the names that the template reads and does not set itself."""
        return meta.find_undeclared_variables(_environment().parse(self.chat_template or ""))


def check_chat_template(folder: Path, kwargs: Mapping[str, Any] | None = None) -> None:
    """Check that the chat template in ``folder``, if there is one, reads ``kwargs`` and renders a plain conversation.

    Raises:
        InputError: it does not.
    """
    chat, kwargs = ChatTemplate(folder), kwargs or {}
    if chat.chat_template is None:
        if given := sorted(kwargs.keys() - TEMPLATE_KWARGS.keys()):
            raise InputError(f"chat_template_kwargs: {', '.join(given)}: {folder} has no chat template that reads it")
        return
    _check_kwargs(chat, kwargs)
    template = replace(CHAT, kwargs=kwargs)
    try:
        render_prompt(messages("1+1=?", "Be brief."), chat, template)
    except InputError as refused:  # a template may ask for a system message, or allow none
        try:
            render_prompt(messages("1+1=?"), chat, template)
        except InputError:
            raise refused from None


def _check_kwargs(chat: ChatTemplate, kwargs: Mapping[str, Any]) -> None:
    readable = chat.variables() - {*FILLED_IN, *special_tokens(Path(chat.name_or_path)), "raise_exception"}
    for name in kwargs:
        if name not in readable and name not in TEMPLATE_KWARGS:
            expected = f"expected some of {', '.join(sorted(readable))}" if readable else "it reads none: leave it out"
            raise InputError(
                f"chat_template_kwargs.{name}: the chat template of {chat.name_or_path} does not read it; {expected}"
            )


def _joined(parts: Iterable[str], most: int) -> str:
    """Return ``parts`` as one text; ValueError once it has more than ``most`` characters."""
    read: list[str] = []
    for part in parts:
        read.append(part)
        most -= len(part)
        if most < 0:
            raise ValueError(f"it writes more than {ADDED_CHARACTERS:,} characters besides the conversation")
    return "".join(read)


def _template_text(folder: Path) -> str | None:
    """Return the chat template in or next to ``tokenizer_config.json``."""
    beside = folder / "chat_template.jinja"
    if beside.is_file():
        try:
            return beside.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{beside}: not UTF-8 at byte {error.start}; convert the chat template to UTF-8") from None
    template = tokenizer_settings(folder).get("chat_template")
    if isinstance(template, list) and all(isinstance(entry, dict) for entry in template):  # several named ones
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    if not isinstance(template, str | None):
        raise InputError(
            f"{folder / 'tokenizer_config.json'}: chat_template is a {type(template).__name__}; expected the chat "
            "template's text"
        )
    return template


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    """Set up Jinja with the options of transformers' apply_chat_template; others would change the blanks."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals["raise_exception"] = _raise
    return environment


def _compile(template: str, folder: Path) -> jinja2.Template:
    try:
        return _environment().from_string(template)
    except jinja2.TemplateError as error:
        raise InputError(f"tokenizer {folder}: its chat template is not Jinja: {first_line(error)}") from error


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
