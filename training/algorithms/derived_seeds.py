"""Deterministic random numbers: equal on every machine, rank and restart."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.files import digest_bytes

if TYPE_CHECKING:
    import pyarrow as pa

Messages = Sequence[Mapping[str, str]]  # messages of a prompt, each with role and content

HASHES = 2**60  # values of stable_hash


def stable_hash(*parts: int | str) -> int:
    """Return a number below ``HASHES`` that is the same for equal ``parts`` on every machine, rank and restart."""
    return int(digest_bytes(repr(parts).encode())[:15], 16)


def prompt_key(messages: Messages) -> int:
    """Return a number for a problem, equal for all its targets."""
    return stable_hash(*(text for message in messages for text in (message["role"], message["content"])))


def prompt_id(row: dict[str, Any]) -> str:
    """Identify the prompt of a row of the targets: by its id or index, or else by its text."""
    extra = row["extra_info"]
    named = extra.get("id") or extra.get("index")
    return str(prompt_key(row["raw_prompt"]) if named is None else named)


def target_ids(targets: "pa.Table") -> list[str]:
    """Return the id of each row, as `prompt_id` says it of the row that verl reads."""
    info = targets["extra_info"].combine_chunks()
    names = [field.name for field in info.type]
    columns = [info.field(name).to_pylist() if name in names else [None] * len(info) for name in ("id", "index")]
    ids = [identifier or index for identifier, index in zip(*columns, strict=True)]
    prompts = targets["prompt"]
    return [
        str(prompt_key(prompts[row].as_py()) if identifier is None else identifier)
        for row, identifier in enumerate(ids)
    ]
