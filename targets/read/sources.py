"""Read traces from their sources: the embedded generator, data files, or a hub data set.

A source is read as shards: files, a dataset, or what a generator makes. The digest of a shard names its content. A
process reads one piece of a shard; the decisions on a piece are what preparation caches.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes
from core.kinds import PREPARED
from core.model.hub import hub_errors, load_split
from core.parquet import ROWS_PER_READ
from core.text.patterns import compile_full_match
from grading.gym_tasks import ENTRY, read_entries
from targets.read.arrow_rows import batch_rows, open_file
from targets.read.data_files import SUFFIXES, DataFile, find_files, with_unique_names
from targets.read.json_rows import Row
from targets.read.mappings import (
    check_columns,
    choose_mapping,
    reject_unreadable,
    to_traces,
)
from targets.read.trace_files import Content, inspect, is_empty, piece_rows, read_rows, stamp_of
from targets.read.worked_solutions import solution_of
from targets.settings import TargetSettings
from targets.source_settings import EMBEDDED, GENERATED, ColumnMapping, Source, top_level
from targets.trace import Trace

TRACES_PER_BATCH = 256
CHARACTERS_PER_BATCH = 4_000_000  # a batch of long texts ends earlier
NUMBER_CHARACTERS = 32  # memory of a number in a list
HUB_ID = compile_full_match(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
TASK_SIZE = 128  # entries, where the options of a task do not say how many
EMBEDDED_MAPPING = ColumnMapping(problem="problem", answer="answer", response="trace")


@dataclass(frozen=True)
class Observation:
    """The content of a source at one moment. ``rows`` is None if counting them needs a full read."""

    digest: str
    rows: int | None
    shards: tuple[tuple[str, str, int | None], ...]  # (name, digest, rows) of each file or dataset


@dataclass(frozen=True)
class Shard:
    """Rows of a file, a hub data set or a generated set, from ``start`` to before ``stop`` (None: all).

    It can be sent to another process, which then reads it.
    """

    name: str  # how its rows are called: the same on every machine
    config: TargetSettings
    number: int  # of its source among `TargetSettings.sources`
    content: Content
    file: DataFile | None = None  # None: the hub data set or the generator that `name` names
    start: int = 0
    stop: int | None = None
    most: int | None = None  # only the first so many of the traces
    begin: int | None = None  # where row `start` begins in a file of lines, in bytes
    moves: bool = False  # its digest is that of its rows alone, wherever in the file they are
    tools: bool = False  # its traces may call tools

    @cached_property
    def source(self) -> Source:
        return self.config.sources[self.number]

    @cached_property
    def digest(self) -> str:
        """Digest of its content; the hub is asked for its data set's."""
        return self.content.digest or _hub_revision(self.source)

    @cached_property
    def mapping(self) -> ColumnMapping:
        """Which columns are read. Raises InputError where the configured mapping does not fit."""
        if self.name == EMBEDDED or self.source.task:
            return EMBEDDED_MAPPING
        where = f"source {self.file.address}" if self.file else f"dataset {self.name}"
        columns = list(self.content.columns or _load_hub(self.source).column_names)
        check_columns(self.source, columns, where)
        return choose_mapping(self.source.mapping or "auto", columns, where)

    @property
    def generation(self) -> dict[str, str]:
        """{digest: settings as JSON} of the generation that wrote the file, if ``luffy evaluate traces`` did."""
        if self.file is None or not self.file.is_parquet:
            return {}
        metadata = open_file(self.file).metadata.metadata or {}
        settings, digest = metadata.get(b"lineage", b""), metadata.get(b"generation", b"").decode(errors="replace")
        return {digest: settings.decode(errors="replace")} if digest_bytes(settings)[:SHORT_DIGEST] == digest else {}

    @property
    def rows(self) -> int:
        """The number of its rows; a hub data set is loaded to count them."""
        if self.stop is not None:
            return self.stop - self.start
        return len(_load_hub(self.source)) if self.content.rows is None else self.content.rows

    def pieces(self, most: int | None = None) -> list["Shard"]:
        """Its rows, or the first ``most`` of them, in shards that can be read independently, in order."""
        rows, content = self.rows, self.content
        limit = rows if most is None else min(rows, most)
        if not content.marks:
            step = content.step if content.rows is not None else piece_rows(rows)
            return [replace(self, start=start, stop=min(start + step, limit)) for start in range(0, limit, step)]
        pieces, parts = [], content.parts()
        for part, end in zip(parts, [*(part[0].row for part in parts[1:]), rows], strict=True):
            digest = digest_bytes("".join(mark.digest for mark in part).encode())
            own, first = replace(content, digest=digest, marks=()), part[0]
            piece = replace(self, content=own, start=first.row, stop=min(end, limit), begin=first.begin, moves=True)
            pieces.append(piece)
        return [piece for piece in pieces if piece.start < limit]

    def batches(self) -> Iterator[list[Trace]]:
        """Its traces, in lists of a size that bounds memory.

        Raises:
            InputError: they cannot be read, or the file has changed since its digest was made.
        """
        batch: list[Trace] = []
        characters = 0
        for trace in islice(self.traces(), self.most):
            batch.append(trace)
            characters += sum(len(text or "") for text in (trace.response, trace.problem, trace.gold, trace.system))
            numbers = len(trace.target_log_probs or ()) + len(trace.target_token_ids or ())
            characters += NUMBER_CHARACTERS * numbers
            if len(batch) == TRACES_PER_BATCH or characters > CHARACTERS_PER_BATCH:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch
        if self.file is not None and stamp_of(self.file) != self.content.stamp:
            raise InputError(
                f"source {self.file.address}: it was changed while it was read; run again when nothing writes to it"
            )

    def traces(self) -> Iterator[Trace]:
        """Its traces in order; InputError where it cannot be read."""
        name = str(self.source.name)
        for trace in self._traces():
            trace.data_source = name
            yield reject_unreadable(trace, self.config)

    def _traces(self) -> Iterator[Trace]:
        if self.file is None and self.name == EMBEDDED:
            for number, p in islice(enumerate(_embedded(self.config)), self.start, self.stop):
                yield Trace(
                    f"{EMBEDDED}:{p.id}",
                    EMBEDDED,
                    number,
                    problem=p.problem,
                    gold=p.answer,
                    response=p.trace,
                    turns=p.turns or None,  # of a problem for a tool
                    metadata=self.source.constants,
                )
        elif self.source.task:
            for number, entry in islice(enumerate(_entries(self.config, self.source)), self.start, self.stop):
                yield Trace(
                    f"{self.name}:{number}",
                    self.name,
                    number,
                    problem=entry["question"],
                    gold=entry["answer"],
                    response=solution_of(entry),
                    metadata=self.source.constants,
                    fields={ENTRY: entry},
                )
        else:
            for number, row in self._rows():
                yield from to_traces(row, self.mapping, self.source, self.name, number, tools=self.tools)

    def _rows(self) -> Iterator[tuple[int, Row]]:
        more = top_level([*self.source.metadata.values(), *self.source.field_paths.values()])
        columns = list(dict.fromkeys([*self.mapping.columns(), *more]))
        if self.file is not None:
            yield from read_rows(self.file, columns, self.start, self.stop, self.begin)
        else:
            dataset = _load_hub(self.source).select_columns(columns)
            dataset = dataset.select(range(self.start, len(dataset) if self.stop is None else self.stop))
            batches = dataset.with_format("arrow").iter(batch_size=ROWS_PER_READ)
            rows = (row for batch in batches for rows in batch_rows(batch) for row in rows)
            yield from enumerate(rows, self.start)

    def __str__(self) -> str:
        return f"{self.name}: rows {self.start:,} to {self.start + self.rows - 1:,}"


def find_shards(config: TargetSettings, generated: Path | None = None, *, tools: bool = False) -> list[Shard]:
    """A shard of each file by name, then of each hub data set and generator in the order given.

    ``generated``: the file of the source `GENERATED`. ``tools``: traces may call tools. Raises InputError for a source
    that is not there, cannot be reached, or is named twice.
    """
    files: list[tuple[DataFile, int]] = []
    others: list[tuple[str, int]] = []
    sources = config.sources
    for number, source in enumerate(sources):
        if source.path == GENERATED:
            if generated is None:
                raise InputError(
                    f"source {GENERATED}: no traces of a teacher: configure the section generate of the profile, or "
                    "give the file that luffy evaluate traces wrote (--generated)"
                )
            files += [(file, number) for file in find_files(str(generated))]
        elif source.path == EMBEDDED or source.task or (is_hub_id(source.path) and not os.path.exists(source.path)):
            others.append((source.path, number))
        else:
            files += [(file, number) for file in find_files(source.path, source.split or "train", source.subset)]
    if len({path for path, _ in others}) < len(others):  # two subsets or splits of a dataset, or the same one twice
        others = [(_with_subset(sources[number]), number) for _, number in others]
    names = [name for name, _ in others]
    if len(set(names)) < len(names):
        raise InputError(f"sources {', '.join(names)}: one is named twice, so its rows would count twice")
    if len(files) > 1:
        files = [(file, number) for file, number in files if not is_empty(file)] or files
    unique = with_unique_names([file for file, _ in files])
    numbers = [number for _, number in files]
    return [
        *(
            Shard(file.name, config, number, inspect(file, sources[number].named_columns), file, tools=tools)
            for file, number in zip(unique, numbers, strict=True)
        ),
        *(Shard(name, config, number, _content(name, config, sources[number])) for name, number in others),
    ]


def _content(name: str, config: TargetSettings, source: Source) -> Content:
    """The content of a generator or a hub data set; the hub is not asked yet."""
    if name == EMBEDDED:
        rows = config.embedded_rows
        return Content(PREPARED.identity(*_embedded_settings(config)), rows, step=piece_rows(rows))
    if source.task:
        entries = _entries(config, source)
        digest = digest_bytes(json.dumps(entries, sort_keys=True).encode())
        return Content(digest, len(entries), step=max(1, len(entries)))
    return Content("", None)


def _with_subset(source: Source) -> str:
    """The name of a task or hub dataset of which several sets of options, subsets or splits are read."""
    if source.task:
        return f"{source.path}/{source.name}"
    return source.path if source.path == EMBEDDED else f"{source.path}/{source.subset or 'default'}/{source.split}"


def read_source(config: TargetSettings, generated: Path | None = None, *, tools: bool = False) -> Iterator[Trace]:
    """Every trace of every source of ``config``, in order, without its limit."""
    shards = find_shards(config, generated, tools=tools)
    for shard in shards:
        _ = shard.mapping
    return chain.from_iterable(shard.traces() for shard in shards)


def observe(config: TargetSettings) -> Observation:
    """Digest and rows of the published sources, without preparing anything. Raises InputError like `find_shards`."""
    shards = tuple((of.name, of.digest, of.content.rows) for of in find_shards(config.published()))
    rows = [count for _, _, count in shards]
    total = None if None in rows else min(sum(r for r in rows if r is not None), config.limit or 1 << 62)
    return Observation(digest_bytes(repr(list(shards)).encode()), total, shards)


def is_hub_id(spec: str) -> bool:
    """Whether ``spec`` can be the id of a hub dataset; a folder here may be called the same."""
    return bool(HUB_ID(spec)) and not spec.lower().endswith(SUFFIXES)


def _entries(config: TargetSettings, source: Source) -> list[dict[str, Any]]:
    options = {"size": TASK_SIZE, "seed": config.seed, **source.options}
    return [entry for entry in _read_entries(str(source.task), json.dumps(options)) if entry["answer"]]


@lru_cache(1)
def _read_entries(task: str, options: str) -> list[dict[str, Any]]:
    return read_entries(task, json.loads(options))


def _embedded(config: TargetSettings) -> list[Any]:
    return _generated_problems(*_embedded_settings(config))


def _embedded_settings(config: TargetSettings) -> tuple[Any, ...]:
    return config.embedded_split, config.embedded_rows, config.seed, config.embedded_terse


@lru_cache(1)
def _generated_problems(*settings: Any) -> list[Any]:
    from core.arithmetic import problems

    return problems(*settings)


def _load_hub(source: Source) -> Any:
    return _loaded(source.path, source.subset, source.split, source.revision)


@lru_cache(1)
def _loaded(path: str, subset: str | None, split: str | None, revision: str | None) -> Any:
    where = f"source {path}: no such file or folder here, and the hub's dataset of this name"
    return load_split(path, subset, split, revision, where=where)


def _hub_revision(source: Source) -> str:
    import huggingface_hub

    advice = f"give a file, a folder, or a dataset that you may read at revision {source.revision or 'main'}"
    with hub_errors(f"source {source.path}: no such file or folder here", advice):
        info = huggingface_hub.HfApi().dataset_info(source.path, revision=source.revision)
    return f"{info.sha}/{source.subset or 'default'}/{source.split}"
