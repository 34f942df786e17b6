"""The metadata dagster/column_lineage: the input columns that each column of a table is made from."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from assets.shared.luffy import Names
from targets.files import read_metadata
from targets.source_settings import GENERATED

if TYPE_CHECKING:
    from targets.prepared_files import Prepared

Columns = Mapping[str, Iterable[tuple[dg.AssetKey, str]]]  # by column, the columns that it is made from
Parts = Mapping[str, tuple[str, ...]]
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
    **dict.fromkeys(("response", "response_chars"), ("response", "reasoning")),
    **dict.fromkeys(("reason", "reasons", "detail"), ("problem", "answer", "response")),
}
# What the columns of a file with verdicts are made from, as columns of benchmarks/suite.
GRADED_PARTS = {
    **{name: (name,) for name in ("benchmark", "id", "prompt", "gold", "subject")},
    "response": ("prompt",),
    **dict.fromkeys(("verdict", "score"), ("gold", "verifier")),
}


def column_lineage(names: Names, columns: Columns) -> dg.TableColumnLineage:
    """Return the lineage of a table's columns for the UI, with keys as the modules of the assets have them."""
    deps = {
        name: [dg.TableColumnDep(asset_key=names.key(key), column_name=column) for key, column in dict.fromkeys(parts)]
        for name, parts in columns.items()
    }
    return dg.TableColumnLineage({name: parts for name, parts in deps.items() if parts})


def made_from(upstream: dg.AssetKey, parts: Parts) -> Columns:
    """Return the lineage of columns that are made from columns of one table."""
    return {name: [(upstream, part) for part in of] for name, of in parts.items()}


def mapped_from(prepared: "Prepared", parts: Parts, source: dg.AssetKey, generated: dg.AssetKey) -> Columns:
    """Return the lineage of a preparation's columns, by the mappings with which its sources were read.

    A path into a struct counts as the struct.
    """
    mappings = json.loads(read_metadata(prepared.prepared, "prepare the targets again")["mappings"])
    columns: dict[str, list[tuple[dg.AssetKey, str]]] = {name: [] for name in parts}
    for mapping in mappings:
        key = generated if prepared.config.paths[mapping["source"]] == GENERATED else source
        for name, of in parts.items():
            paths = [mapping[part] for part in of if mapping[part]]
            for path in (one for part in paths for one in (part if isinstance(part, list) else [part])):
                columns[name].append((key, path.partition(".")[0]))
    return columns
