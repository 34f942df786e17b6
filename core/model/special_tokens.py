"""The special tokens of a tokenizer's folder, read without transformers."""

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.text.parse import parse_object

SETTINGS, OLDER_SETTINGS, VOCABULARY = "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"
# Classes of tokenizers whose special tokens are those of the files; others bring their own.
GENERIC = (None, "PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """Return ``tokenizer_config.json``; empty if there is none."""
    return _read_object(folder / SETTINGS)


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the text of each special token that the files name, by its key (``eos_token``, …)."""
    named = _read_object(folder / OLDER_SETTINGS) | tokenizer_settings(folder)
    return {key: text for key, value in named.items() if key.endswith("_token") and (text := _text(value))}


def check_end_token(folder: Path) -> None:
    """Check that the tokenizer in ``folder`` names the token with which a response ends.

    Raises:
        InputError: it names none, or one that its vocabulary does not have.
    """
    settings, end = tokenizer_settings(folder), special_tokens(folder).get("eos_token")
    file = folder / SETTINGS
    if end is None:
        brings_one = "eos_token" not in settings and settings.get("tokenizer_class") not in GENERIC
        if not file.is_file() or brings_one:
            return
        raise InputError(
            f"{file}: no eos_token, the token with which a response ends: name one of the vocabulary (the token that "
            "the chat template writes after an answer)"
        )
    vocabulary = _read_object(folder / VOCABULARY)
    added = {token.get("content") for token in vocabulary.get("added_tokens") or [] if isinstance(token, dict)}
    tokens = (vocabulary.get("model") or {}).get("vocab")
    if isinstance(tokens, dict) and end not in tokens and end not in added:
        raise InputError(
            f"{file}: eos_token {end!r:.80} is not in the vocabulary of {VOCABULARY}: name one that is, or save the "
            "tokenizer again with it"
        )


def _read_object(file: Path) -> dict[str, Any]:
    return parse_object(file.read_bytes(), str(file)) if file.is_file() else {}


def _text(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value if isinstance(value, str) else None
