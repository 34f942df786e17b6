"""The chat template of a model's folder, rendered without transformers.

A template is a program by whoever made the model: Jinja's sandbox keeps it from our objects, but not from time and
memory. `check_chat_template` lets it render its first conversations in a process that has little of both:
``python -m core.model.chat_template FOLDER``.
"""

import json
import os
import resource
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from core.cli import exit_status
from core.code_digest import PROJECT
from core.errors import InputError, first_line
from core.machine.limits import limit, limit_memory
from core.model.prompts import Messages, messages, render_prompt
from core.text.parse import parse_object

CPU_SECONDS = 5
MEMORY_BYTES = 512 << 20


class ChatTemplate:
    """The chat template of a tokenizer's folder, rendered as transformers renders it, but without transformers.

    Raises InputError for a ``tokenizer_config.json`` that is not JSON or a template that is not Jinja.
    """

    def __init__(self, folder: Path) -> None:
        self.name_or_path = str(folder)
        settings, self.chat_template = _settings(folder)
        self._special = {
            key: text for key, value in settings.items() if key.endswith("_token") and (text := _token(value))
        }
        self.eos_token = self._special.get("eos_token")
        self._compiled = _compile(self.chat_template, folder) if self.chat_template else None

    def apply_chat_template(
        self, conversation: Messages, *, tokenize: bool = False, add_generation_prompt: bool = True
    ) -> str:
        """The text of ``conversation``; it has the signature of a transformers tokenizer and cannot tokenize."""
        assert self._compiled is not None and not tokenize
        return self._compiled.render(
            messages=list(conversation), add_generation_prompt=add_generation_prompt, **self._special
        )


def check_chat_template(folder: Path) -> None:
    """Raise InputError unless the chat template in ``folder``, if there is one, renders a plain conversation.

    It has `CPU_SECONDS` and `MEMORY_BYTES`.
    """
    if _settings(folder)[1] is None:  # Jinja computes constant expressions when it compiles
        return
    command = [sys.executable, "-m", "core.model.chat_template", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise InputError(done.stderr.strip().removeprefix("error: "))
    if done.returncode:
        raise InputError(
            f"{folder}: its chat template takes more than {CPU_SECONDS} s or {MEMORY_BYTES >> 20} MiB to render a "
            "conversation of one line: use a model whose template you trust"
        )


def _settings(folder: Path) -> tuple[dict[str, Any], str | None]:
    """tokenizer_config.json, and the chat template in it or beside it."""
    file = folder / "tokenizer_config.json"
    settings = parse_object(file.read_bytes(), str(file)) if file.is_file() else {}
    template = settings.get("chat_template")
    beside = folder / "chat_template.jinja"
    if beside.is_file():
        try:
            return settings, beside.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{beside}: not UTF-8 at byte {error.start}; convert the chat template to UTF-8") from None
    if isinstance(template, list) and all(isinstance(entry, dict) for entry in template):  # several named ones
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    if not isinstance(template, str | None):
        raise InputError(f"{file}: chat_template is a {type(template).__name__}; expected the chat template's text")
    return settings, template


def _compile(template: str, folder: Path) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # The options of transformers' apply_chat_template; others would render other blanks.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(template)
    except jinja2.TemplateError as error:
        raise InputError(f"tokenizer {folder}: its chat template is not Jinja: {first_line(error)}") from error


def _raise(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)


def _token(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value if isinstance(value, str) else None


def _render(folder: Path) -> None:
    """Raise InputError unless the template renders a conversation with a system message, or one without."""
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, CPU_SECONDS)
    limit_memory(MEMORY_BYTES)
    chat = ChatTemplate(folder)
    try:
        render_prompt(messages("1+1=?", "Be brief."), chat)
    except InputError as refused:  # a template may ask for a system message, or allow none
        try:
            render_prompt(messages("1+1=?"), chat)
        except InputError:
            raise refused from None


if __name__ == "__main__":
    sys.exit(exit_status(lambda: _render(Path(sys.argv[1]))))
