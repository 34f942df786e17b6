"""Samples that were drawn once are not drawn again.

A sample is named by the model, the way of sampling, the rendered prompt and its number; nothing else decides it. The
cache is a folder of immutable parquet files:

    <root>/<group>/group.json        the model and the sampling, for people
    <root>/<group>/<sha256>.parquet  samples, named by their content, written as generation goes

Files only ever appear, complete: a crash loses at most the samples of the last seconds, and any number of processes may
write. Deleting a folder or a file makes its samples missing again, no more.
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.errors import InputError
from core.files import digest_bytes, digest_table, write_json, write_table

FLUSH_S = 10.0
FLUSH_ROWS = 1024

CACHED = pa.schema(
    [
        ("prompt_digest", pa.string()),  # sha256 of the rendered prompt
        ("sample", pa.int32()),
        ("response", pa.string()),
        ("tokens", pa.int32()),
        ("finish_reason", pa.string()),
    ]
)

Key = tuple[str, int]  # prompt_digest, sample


class SampleCache:
    """The samples of one model under one sampling. A context manager: its end writes what is left, come what may."""

    def __init__(self, root: Path, group: Mapping[str, Any]) -> None:
        """``group``: everything besides prompt and number that decides a sample, as JSON values."""
        self.folder = Path(root) / digest_bytes(json.dumps(group, sort_keys=True).encode())[:16]
        self._group = dict(group)
        self._rows: list[dict[str, Any]] = []
        self._written = time.monotonic()

    def __enter__(self) -> "SampleCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def lookup(self, wanted: Iterable[Key]) -> dict[Key, dict[str, Any]]:
        """Those of ``wanted`` that are there, as CACHED rows. InputError names a file that cannot be read."""
        keys = set(wanted)
        digests = pa.array(sorted({digest for digest, _ in keys}), pa.string())
        found: dict[Key, dict[str, Any]] = {}
        for file in sorted(self.folder.glob("*.parquet")):
            try:
                table = pq.read_table(file, schema=CACHED, filters=pc.field("prompt_digest").isin(digests))
            except (pa.ArrowInvalid, OSError) as error:
                raise InputError(
                    f"{file}: not a readable parquet file ({error}); delete it to draw it again"
                ) from error
            for row in table.to_pylist():
                if (key := (row["prompt_digest"], row["sample"])) in keys:
                    found.setdefault(key, row)
        return found

    def add(self, key: Key, response: str, tokens: int, finish_reason: str) -> None:
        """Keep one sample; it is on disk within `FLUSH_S` seconds of more samples, or at the end."""
        digest, sample = key
        self._rows.append(
            {
                "prompt_digest": digest,
                "sample": sample,
                "response": response,
                "tokens": tokens,
                "finish_reason": finish_reason,
            }
        )
        if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._written >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write the samples that are not on disk yet as one more file."""
        self._written = time.monotonic()
        if not self._rows:
            return
        table = pa.Table.from_pylist(self._rows, schema=CACHED)
        if not (self.folder / "group.json").exists():
            write_json(self._group, self.folder / "group.json")
        write_table(table, self.folder / f"{digest_table(table)}.parquet")
        self._rows = []


def prompt_digest(prompt: str) -> str:
    """sha256 of a rendered prompt."""
    return digest_bytes(prompt.encode())
