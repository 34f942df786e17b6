"""Lengths under the policy's own tokenizer, from its ``tokenizer.json``: no torch, no transformers.

Byte-level BPE never makes more tokens than there are bytes, so a text under a limit in bytes is under it in tokens;
only longer ones, and the kept ones (whose exact length the profile records), are tokenized.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import InputError
from evaluation.files import digest_bytes

Messages = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Lengths:
    """Token counts of prompts and targets as the trainer will see them."""

    tokenizer: Any  # tokenizers.Tokenizer
    template: Any  # jinja2.Template, or None: then a prompt is its contents
    special: dict[str, str]  # bos_token, eos_token …, which templates use
    digest: str
    byte_level: bool  # tokens never exceed bytes

    def prompt_text(self, messages: Messages) -> str:
        """What the policy sees before it answers, chat template included."""
        if self.template is None:
            return "\n".join(message["content"] for message in messages)
        return self.template.render(messages=list(messages), add_generation_prompt=True, **self.special)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens added."""
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def over(self, texts: Sequence[str], limit: int) -> dict[int, int]:
        """{position: tokens} of the texts with more than ``limit`` tokens."""
        doubtful = [i for i, text in enumerate(texts) if not self.byte_level or _most_tokens(text) > limit]
        counts = self.count([texts[i] for i in doubtful])
        return {i: tokens for i, tokens in zip(doubtful, counts, strict=True) if tokens > limit}


def load_lengths(path: Path) -> Lengths:
    """The tokenizer in ``path``, a ``tokenizer.json`` or the model folder that holds one, with its chat template.

    Raises InputError if there is none, or if its chat template does not render a plain conversation.
    """
    import jinja2
    import tokenizers

    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"tokenizer {path}: no such file; give the policy's tokenizer.json or its model folder")
    content = file.read_bytes()
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except ValueError as error:
        raise InputError(f"tokenizer {file}: not a tokenizer.json: {error}") from error
    settings, template = _settings(file.parent)
    special = {key: text for key, value in settings.items() if key.endswith("_token") and (text := _token(value))}
    # No cut, no padding: a tokenizer.json may carry either from its last use, and both would falsify the counts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lengths = Lengths(
        tokenizer,
        _compile(template, file.parent) if template else None,
        special,
        digest_bytes(content + (template or "").encode()),
        _is_byte_level(json.loads(content)),
    )
    try:
        lengths.prompt_text([{"role": "user", "content": "1+1=?"}])
    except (jinja2.TemplateError, ValueError, TypeError) as error:
        raise InputError(f"tokenizer {file.parent}: its chat template does not render a prompt: {error}") from error
    return lengths


def _most_tokens(text: str) -> int:
    """Bytes, which tokens never exceed; Unicode normalisation (NFC) may first make up to three of one."""
    return len(text.encode()) * (1 if text.isascii() else 3)


def _settings(folder: Path) -> tuple[dict[str, Any], str | None]:
    """tokenizer_config.json, and the chat template in it or beside it."""
    file = folder / "tokenizer_config.json"
    try:
        settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise InputError(f"tokenizer settings {file}: not JSON: {error}") from error
    template = settings.get("chat_template")
    if isinstance(template, list):  # several named ones
        template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    beside = folder / "chat_template.jinja"
    return settings, beside.read_text(encoding="utf-8") if beside.is_file() else template


def _compile(template: str, folder: Path) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # The options of transformers' apply_chat_template: other ones would count other blanks.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = _refuse
    try:
        return environment.from_string(template)
    except jinja2.TemplateError as error:
        raise InputError(f"tokenizer {folder}: its chat template is not Jinja: {error}") from error


def _refuse(message: str) -> None:
    raise ValueError(message)


def _token(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value if isinstance(value, str) else None


def _is_byte_level(settings: dict[str, Any]) -> bool:
    """Whether every token stands for at least one byte of the text as given."""
    if settings.get("normalizer") and '"Prepend"' in json.dumps(settings["normalizer"]):
        return False
    return '"ByteLevel"' in json.dumps([settings.get("pre_tokenizer"), settings.get("decoder")])
