"""Where traces come from: the embedded generator, data files, or a dataset of the hub."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from evaluation.errors import InputError
from evaluation.files import digest_bytes
from training.targets.config import EMBEDDED, PrepareConfig
from training.targets.datafiles import (
    ROWS_A_READ,
    SUFFIXES,
    DataFile,
    batch_rows,
    column_names,
    find_files,
    fingerprint,
    read_rows,
    with_unique_names,
)
from training.targets.traces import Trace, choose_mapping, to_traces

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class Observation:
    """What a source holds now. ``rows`` is None where only reading all of it would tell."""

    digest: str
    rows: int | None
    parts: tuple[tuple[str, str, int | None], ...]  # (name, digest, rows) of each file or dataset


def read_source(config: PrepareConfig) -> Iterator[Trace]:
    """Every trace of every source of ``config``, in order. Raises InputError for a source that cannot be read."""
    return islice(_traces(config), config.limit) if config.limit else _traces(config)


def observe(config: PrepareConfig) -> Observation:
    """Digest and rows of the sources, without preparing anything. Raises InputError like `read_source`."""
    parts: list[tuple[str, str, int | None]] = []
    files, others = _locate(config)
    for file in files:
        parts.append((file.name, *fingerprint(file)))
    for spec in others:
        if spec == EMBEDDED:
            made = digest_bytes("\n".join(f"{p.id} {p.problem} {p.trace}" for p in _embedded(config)).encode())
            parts.append((EMBEDDED, made, config.embedded_rows))
        else:
            parts.append((spec, _hub_revision(spec, config), None))
    rows = [part[2] for part in parts]
    total = None if None in rows else min(sum(r for r in rows if r is not None), config.limit or 1 << 62)
    return Observation(digest_bytes(repr(parts).encode()), total, tuple(parts))


def describe(config: PrepareConfig) -> list[str]:
    """The names that rows of ``config`` will carry in ``extra_info.source``."""
    files, others = _locate(config)
    return [*(file.name for file in files), *others]


def _traces(config: PrepareConfig) -> Iterator[Trace]:
    files, others = _locate(config)
    mappings = [choose_mapping(config.mapping, column_names(file), f"source {file.path}") for file in files]
    for file, mapping in zip(files, mappings, strict=True):  # every file was looked at before the first row is read
        for number, row in read_rows(file, mapping.columns()):
            yield from to_traces(row, mapping, file.name, number)
    for spec in others:
        yield from _from_embedded(config) if spec == EMBEDDED else _from_hub(spec, config)


def _locate(config: PrepareConfig) -> tuple[list[DataFile], list[str]]:
    """Data files of all sources, and the sources that are not files (in the order given, after the files)."""
    files: list[DataFile] = []
    others: list[str] = []
    for spec in config.source:
        if spec == EMBEDDED or (_looks_like_hub_id(spec) and not os.path.exists(spec)):
            others.append(spec)
        else:
            files += find_files(spec)
    if len(set(others)) < len(others):
        raise InputError(f"sources {', '.join(others)}: one is named twice: its rows would count twice")
    return with_unique_names(files), others


def _looks_like_hub_id(spec: str) -> bool:
    return bool(HUB_ID.fullmatch(spec)) and not spec.endswith(SUFFIXES)


def _embedded(config: PrepareConfig) -> list[Any]:
    from evaluation.arithmetic import problems

    return problems("train", config.embedded_rows, config.seed)


def _from_embedded(config: PrepareConfig) -> Iterator[Trace]:
    for row, problem in enumerate(_embedded(config)):
        yield Trace(f"{EMBEDDED}:{problem.id}", EMBEDDED, row, problem.problem, problem.answer, problem.trace)


def _from_hub(name: str, config: PrepareConfig) -> Iterator[Trace]:
    dataset = _load_hub(name, config)
    mapping = choose_mapping(config.mapping, dataset.column_names, f"dataset {name}")
    number = 0
    for batch in dataset.select_columns(mapping.columns()).with_format("arrow").iter(batch_size=ROWS_A_READ):
        for row in batch_rows(batch):
            yield from to_traces(row, mapping, name, number)
            number += 1


def _load_hub(name: str, config: PrepareConfig) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, split=config.split, revision=config.revision)
    except (OSError, ValueError) as error:  # not found, no network, gated, no such split
        raise InputError(
            f"source {name}: no such file or folder here, and as a dataset of the hub (split {config.split!r}, "
            f"revision {config.revision or 'main'}) it cannot be loaded: {str(error).splitlines()[0]}"
        ) from error


def _hub_revision(name: str, config: PrepareConfig) -> str:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        info = huggingface_hub.HfApi().dataset_info(name, revision=config.revision)
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        raise InputError(
            f"source {name}: no such file or folder here, and the hub does not answer for a dataset of this name "
            f"(revision {config.revision or 'main'}): {str(error).splitlines()[0]}"
        ) from error
    return f"{info.sha}/{config.split}"
