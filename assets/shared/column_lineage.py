"""The metadata dagster/column_lineage: the input columns that each column of a table is made from."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from assets.shared.luffy import Names

if TYPE_CHECKING:
    from targets.prepared_files import Prepared

Columns = Mapping[str, Iterable[tuple[dg.AssetKey, str]]]  # by column, the columns that it is made from
# What the columns of targets/prepared and targets/rejected are made from, as keys of a mapping (targets.source).
TARGET_PARTS = {
    "prompt": ("problem", "system"),
    "target": ("response", "reasoning"),
    "reward_model": ("answer",),
    "target_log_probs": ("target_log_probs",),
}
REJECTED_PARTS = {
    "problem": ("problem",),
    "gold": ("answer",),
    "upstream_correct": ("upstream_correct",),
    "verdict": ("answer", "response"),
    "response": ("response", "reasoning"),
    "response_chars": ("response", "reasoning"),
    "reason": ("problem", "answer", "response"),
    "reasons": ("problem", "answer", "response"),
    "detail": ("problem", "answer", "response"),
}
# What the columns of a file with verdicts are made from, as columns of benchmarks/suite.
GRADED_PARTS = {
    "benchmark": ("benchmark",),
    "id": ("id",),
    "prompt": ("prompt",),
    "response": ("prompt",),
    "gold": ("gold",),
    "subject": ("subject",),
    "verdict": ("gold", "verifier"),
    "score": ("gold", "verifier"),
}


def column_lineage(names: Names, columns: Columns) -> dg.TableColumnLineage:
    """Return the lineage of a table's columns for the UI; a column without an input column is left out.

    Args:
        names: Names of our assets.
        columns: The columns of the table, with keys as the modules of the assets have them.
    """
    deps = {
        name: [dg.TableColumnDep(asset_key=names.key(key), column_name=column) for key, column in dict.fromkeys(parts)]
        for name, parts in columns.items()
    }
    return dg.TableColumnLineage({name: parts for name, parts in deps.items() if parts})


def copied_columns(names: Iterable[str], upstream: dg.AssetKey) -> Columns:
    """Return the lineage of columns that ``upstream`` has under the same names."""
    return {name: [(upstream, name)] for name in names}


def target_columns(prepared: "Prepared", source: dg.AssetKey, generated: dg.AssetKey) -> Columns:
    """Return the lineage of targets/prepared, by the mappings with which its sources were read."""
    return _mapped(prepared, TARGET_PARTS, source, generated)


def rejected_columns(prepared: "Prepared", source: dg.AssetKey, generated: dg.AssetKey) -> Columns:
    """Return the lineage of targets/rejected, by the mappings with which its sources were read."""
    return _mapped(prepared, REJECTED_PARTS, source, generated)


def graded_columns(suite: dg.AssetKey) -> Columns:
    """Return the lineage of a file with verdicts."""
    return {name: [(suite, part) for part in parts] for name, parts in GRADED_PARTS.items()}


def _mapped(
    prepared: "Prepared", parts: Mapping[str, tuple[str, ...]], source: dg.AssetKey, generated: dg.AssetKey
) -> Columns:
    """Return the columns of the source behind each column; a path into a struct counts as the struct."""
    from targets.files import read_metadata
    from targets.source_settings import GENERATED

    mappings = json.loads(read_metadata(prepared.prepared, "prepare the targets again")["mappings"])
    paths = prepared.config.paths
    return {
        column: [
            (generated if paths[mapping["source"]] == GENERATED else source, path.partition(".")[0])
            for mapping in mappings
            for part in names
            for path in _paths(mapping[part])
        ]
        for column, names in parts.items()
    }


def _paths(value: str | list[str] | None) -> list[str]:
    """Return the columns that a part of a mapping names."""
    return value if isinstance(value, list) else [value] if value else []
