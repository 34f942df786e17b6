"""A cache of samples, so that no sample is drawn twice.

The model, the sampling, the rendered prompt and the sample's number name a sample; nothing else decides it. Where
it may call tools, these and the row that they read belong to its prompt. The cache is a folder of immutable parquet
files:

    <root>/<group>/group.json        the model and the sampling, for people to read
    <root>/<group>/<sha256>.parquet  samples, named by their content and written while generation goes on
    <root>/<group>/unread/*.json     answers of an endpoint that are of no known form, as it sent them

Files only ever appear, and they appear complete: a crash loses at most the samples of the last seconds, and any number
of processes may write. If you delete a file or a folder, its samples are drawn again.
"""

import json
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.code_digest import SHORT_DIGEST
from core.files import digest_bytes, digest_table, write_json, write_table, write_text
from core.parquet import read_parquet
from core.schemas import TURNS
from evaluation.generation.requests import Completion, SampleKey

FLUSH_S = 10.0
FLUSH_ROWS = 1024

CACHED = pa.schema(
    [
        ("prompt_digest", pa.string()),  # see `evaluation.generation.requests.prompt_digest`
        ("sample", pa.int32()),
        ("response", pa.string()),
        ("tokens", pa.int32()),
        ("finish_reason", pa.string()),
    ]
)


LOG_PROBS = "log_probs"  # key of a group whose samples have tokens and log-probabilities
WITH_LOG_PROBS = pa.schema([*CACHED, ("token_ids", pa.list_(pa.int32())), ("log_probs", pa.list_(pa.float32()))])


class SampleCache:
    """The samples of one model under one sampling. Use it as a context manager: leaving it writes the rest."""

    def __init__(self, root: Path, group: Mapping[str, Any], *, flush_s: float = FLUSH_S) -> None:
        """
        Args:
            group: everything besides prompt and number that decides a sample, as JSON values.
            flush_s: seconds between writes.
        """
        self.folder = Path(root) / digest_bytes(json.dumps(group, sort_keys=True).encode())[:16]
        self._group = dict(group)
        self._schema = WITH_LOG_PROBS if group.get(LOG_PROBS) else CACHED
        self._flush_s = flush_s
        self._rows: list[dict[str, Any]] = []
        self._flushed = time.monotonic()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None  # writes what no later sample would

    def __enter__(self) -> "SampleCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def lookup(self, keys: Iterable[SampleKey]) -> dict[SampleKey, Completion]:
        """Return the samples of ``keys`` that the cache has. InputError names a file that cannot be read."""
        keys = set(keys)
        digests = pa.array(sorted({digest for digest, _ in keys}), pa.string())
        samples: dict[SampleKey, Completion] = {}
        for file in sorted(self.folder.glob("*.parquet")):
            prompts = pc.field("prompt_digest").isin(digests)
            schema = self._schema.append(TURNS)
            table = read_parquet(file, "delete it to draw it again", schema=schema, filters=prompts)
            for row in table.to_pylist():
                if (key := (row.pop("prompt_digest"), row.pop("sample"))) in keys:
                    samples.setdefault(key, Completion(**row))
        return samples

    def add(self, key: SampleKey, completion: Completion) -> None:
        """Keep one sample; it is on disk within ``flush_s`` seconds, or at the end. Thread-safe."""
        digest, sample = key
        with self._lock:
            self._rows.append({"prompt_digest": digest, "sample": sample, **completion._asdict()})
            if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed >= self._flush_s:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(self._flush_s, self._flush_in_time)
                self._timer.daemon = True
                self._timer.start()

    def keep_unread(self, key: SampleKey, raw: str) -> Path:
        """Keep an answer from which no sample can be read, as the endpoint sent it; returns its file."""
        digest, sample = key
        file = self.folder / "unread" / f"{digest[:SHORT_DIGEST]}-{sample}.json"
        write_text(raw, file)
        return file

    def flush(self) -> None:
        """Write the samples that are not on disk yet as one more file."""
        with self._lock:
            self._write()

    def _flush_in_time(self) -> None:
        with suppress(OSError):  # the rows stay, and the next attempt to write them says why it fails
            self.flush()

    def _write(self) -> None:
        self._flushed = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._rows:
            return
        episodes = any(row["turns"] is not None for row in self._rows)
        table = pa.Table.from_pylist(self._rows, schema=self._schema.append(TURNS) if episodes else self._schema)
        if not (self.folder / "group.json").exists():
            write_json(self._group, self.folder / "group.json")
        write_table(table, self.folder / f"{digest_table(table)}.parquet")
        self._rows = []
