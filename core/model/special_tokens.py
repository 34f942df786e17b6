"""The special tokens of a tokenizer's folder, read without transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError
from core.text.parse import parse_object

SETTINGS, OLDER_SETTINGS, VOCABULARY = "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"
ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
# Classes of tokenizers whose special tokens are those of the files; others bring their own.
GENERIC = (None, "PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """Return ``tokenizer_config.json``; empty if there is none."""
    return _read_object(folder / SETTINGS)


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the text of each special token that the files name, by its key (``eos_token``, …)."""
    named = _read_object(folder / OLDER_SETTINGS) | tokenizer_settings(folder)
    return {key: text for key, value in named.items() if key.endswith("_token") and (text := _text(value))}


class Vocabulary(NamedTuple):
    """The id of each token: of those of the tokenizer's model, and of those that were added to them."""

    model: Mapping[str, int]
    added: Mapping[str, int]


def vocabulary(folder: Path) -> Vocabulary:
    """Return the tokens in ``tokenizer.json``; none if there is no such file."""
    content = _read_object(folder / VOCABULARY)
    tokens = (content.get("model") or {}).get("vocab") or {}
    if isinstance(tokens, list):  # of pieces and their scores
        tokens = {piece[0]: number for number, piece in enumerate(tokens)}
    return Vocabulary(tokens, {token["content"]: token["id"] for token in content.get("added_tokens") or ()})


def check_end_token(folder: Path, tokens: Vocabulary | None = None) -> None:
    """Check that the tokenizer in ``folder``, with ``tokens``, names the token with which a response ends.

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
    tokens = tokens or vocabulary(folder)
    if tokens.model and end not in tokens.model and end not in tokens.added:
        raise InputError(
            f"{file}: eos_token {end!r:.80} is not in the vocabulary of {VOCABULARY}: name a token that is, or save "
            "the "
            "tokenizer again with it"
        )


def check_token_ids(folder: Path, tokens: Vocabulary, rows: int, written: str) -> None:
    """Check that the embedding, of ``rows`` rows, has one for each of ``tokens`` that a prompt or an answer may have.

    Tokens that were added to the vocabulary count if they have a role, or are part of the text ``written``: a
    tokenizer may add one for related models.

    Raises:
        InputError: it has none for some.
    """
    ids = {**tokens.model, **tokens.added}
    following = max(ids.values(), default=-1) + 1  # the id that a token gets which is only named
    named = {text: ids.get(text, following) for key, text in special_tokens(folder).items() if key in ROLES}
    used = {token: number for token, number in tokens.added.items() if token in written}
    without = {token: n for token, n in tokens.model.items() if token not in tokens.added} | named | used
    if beyond := sorted((number, token) for token, number in without.items() if number >= rows):
        number, token = beyond[0]
        raise InputError(
            f"{folder}: its tokenizer has tokens beyond the {rows} rows of the embedding (vocab_size): {len(beyond)}, "
            f"such as {token!r:.80} with the id {number}: take the tokenizer of this model, or give the embedding a "
            "trained row for each (model.resize_token_embeddings)"
        )


def _read_object(file: Path) -> dict[str, Any]:
    return parse_object(file.read_bytes(), str(file)) if file.is_file() else {}


def _text(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value if isinstance(value, str) else None
