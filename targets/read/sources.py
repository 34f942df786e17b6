"""Where traces come from: the embedded generator, data files, or a hub data set.

A source is read as parts: a file, a dataset, or what the generator makes. A part is the unit that preparation caches:
its digest names its content, and its traces are filtered once.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

from core.errors import InputError
from core.files import digest_bytes
from core.hub import hub_errors
from core.parquet_batches import ROWS_PER_READ
from core.patterns import compile_full_match
from targets.config import EMBEDDED, ColumnMapping, PrepareConfig
from targets.read.files import (
    SUFFIXES,
    DataFile,
    column_names,
    find_files,
    fingerprint,
    read_rows,
    row_groups,
    with_unique_names,
)
from targets.read.json_rows import Row
from targets.read.mappings import choose_mapping, reject_unreadable, to_traces
from targets.read.parquet_rows import batch_rows
from targets.trace import Trace

TRACES_PER_BATCH = 256
CHARACTERS_PER_BATCH = 4_000_000  # a batch of long texts ends earlier
NUMBER_CHARACTERS = 32  # memory of a number in a list
HUB_ID = compile_full_match(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
EMBEDDED_MAPPING = ColumnMapping(problem="problem", answer="answer", response="trace")


@dataclass(frozen=True)
class Observation:
    """What a source holds at this moment. ``rows`` is None where only reading all of it would tell."""

    digest: str
    rows: int | None
    parts: tuple[tuple[str, str, int | None], ...]  # (name, digest, rows) of each file or dataset


@dataclass(frozen=True)
class Part:
    """One file, hub data set or generated set. It can be sent to another process, which then reads it."""

    name: str  # how its rows are called: the same on every machine
    config: PrepareConfig
    file: DataFile | None = None  # None: the hub data set or the generator that `name` names

    @cached_property
    def fingerprint(self) -> tuple[str, int | None]:
        """(digest of the content, rows where known without reading all of it)."""
        if self.file is not None:
            return fingerprint(self.file)
        if self.name == EMBEDDED:
            texts = [f"{p.id} {p.problem} {p.trace}" for p in _embedded(self.config)]
            return digest_bytes("\n".join(texts).encode()), self.config.embedded_rows
        return _hub_revision(self.name, self.config), None

    @cached_property
    def mapping(self) -> ColumnMapping:
        """Which columns are read. Raises InputError where the configured mapping does not fit."""
        if self.file is not None:
            return choose_mapping(self.config.mapping, column_names(self.file), f"source {self.file.path}")
        if self.name == EMBEDDED:
            return EMBEDDED_MAPPING
        columns = _load_hub(self.name, self.config).column_names
        return choose_mapping(self.config.mapping, columns, f"dataset {self.name}")

    def pieces(self) -> list[tuple[int, ...] | None]:
        """Row groups that can be read independently; [None] where there is one piece only."""
        groups = row_groups(self.file) if self.file is not None else 1
        return [(group,) for group in range(groups)] if groups > 1 else [None]

    def traces(self, piece: tuple[int, ...] | None = None) -> Iterator[Trace]:
        """Its traces in order, or those of one of its `pieces`. Raises InputError where it cannot be read."""
        for trace in self._traces(piece):
            yield reject_unreadable(trace, self.config)

    def batches(self, limit: int | None = None, piece: tuple[int, ...] | None = None) -> Iterator[list[Trace]]:
        """Its first ``limit`` traces, or those of one of its `pieces`, in lists of a size that bounds memory."""
        batch: list[Trace] = []
        characters = 0
        for trace in islice(self.traces(piece), limit):
            batch.append(trace)
            characters += sum(len(text or "") for text in (trace.response, trace.problem, trace.gold, trace.system))
            characters += NUMBER_CHARACTERS * len(trace.target_log_probs or ())
            if len(batch) == TRACES_PER_BATCH or characters > CHARACTERS_PER_BATCH:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch

    def _traces(self, piece: tuple[int, ...] | None) -> Iterator[Trace]:
        if self.file is None and self.name == EMBEDDED:
            for number, p in enumerate(_embedded(self.config)):
                yield Trace(f"{EMBEDDED}:{p.id}", EMBEDDED, number, 1, p.problem, p.answer, p.trace)
        else:
            for number, row in self._rows(piece):
                yield from to_traces(row, self.mapping, self.name, number)

    def _rows(self, piece: tuple[int, ...] | None) -> Iterator[tuple[int, Row]]:
        if self.file is not None:
            yield from read_rows(self.file, self.mapping.columns(), piece)
        else:
            dataset = _load_hub(self.name, self.config).select_columns(self.mapping.columns())
            batches = dataset.with_format("arrow").iter(batch_size=ROWS_PER_READ)
            yield from enumerate(chain.from_iterable(batch_rows(batch) for batch in batches))


def find_parts(config: PrepareConfig) -> list[Part]:
    """The parts of all sources: files by name, then the others in the order given.

    Raises InputError for a source that is not there, cannot be reached, or is named twice.
    """
    files: list[DataFile] = []
    others: list[str] = []
    for spec in config.source:
        if spec == EMBEDDED or (is_hub_id(spec) and not os.path.exists(spec)):
            others.append(spec)
        else:
            files += find_files(spec)
    if len(set(others)) < len(others):
        raise InputError(f"sources {', '.join(others)}: one is named twice, so its rows would count twice")
    files = with_unique_names(files)
    return [*(Part(file.name, config, file) for file in files), *(Part(name, config) for name in others)]


def read_source(config: PrepareConfig) -> Iterator[Trace]:
    """Every trace of every source of ``config``, in order, without its limit."""
    parts = find_parts(config)
    for part in parts:
        _ = part.mapping
    return chain.from_iterable(part.traces() for part in parts)


def observe(config: PrepareConfig) -> Observation:
    """Digest and rows of the sources, without preparing anything. Raises InputError like `find_parts`."""
    parts = tuple((part.name, *part.fingerprint) for part in find_parts(config))
    rows = [part[2] for part in parts]
    total = None if None in rows else min(sum(r for r in rows if r is not None), config.limit or 1 << 62)
    return Observation(digest_bytes(repr(list(parts)).encode()), total, parts)


def is_hub_id(spec: str) -> bool:
    """Whether ``spec`` can be the id of a hub dataset; a folder here may be called the same."""
    return bool(HUB_ID(spec)) and not spec.endswith(SUFFIXES)


def _embedded(config: PrepareConfig) -> list[Any]:
    from core.arithmetic import problems

    return problems(config.embedded_split, config.embedded_rows, config.seed, config.embedded_terse)


def _load_hub(name: str, config: PrepareConfig) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, config.subset, split=config.split, revision=config.revision)
    except (OSError, ValueError) as error:  # not found, no network, gated, no such subset or split
        raise InputError(
            f"source {name}: no such file or folder here, and as a dataset of the hub (split {config.split!r}, "
            f"subset {config.subset or 'default'}, revision {config.revision or 'main'}) it cannot be loaded: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _hub_revision(name: str, config: PrepareConfig) -> str:
    import huggingface_hub

    advice = f"give a file, a folder, or a dataset that you may read at revision {config.revision or 'main'}"
    with hub_errors(f"source {name}: no such file or folder here", advice):
        info = huggingface_hub.HfApi().dataset_info(name, revision=config.revision)
    return f"{info.sha}/{config.subset or 'default'}/{config.split}"
