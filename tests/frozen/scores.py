"""avg@k, pass@k, maj@k and intervals of each recorded run and of each recipe over its seeds, and paired tests."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from recorded import Tables, tables, unpack

from evaluation.statistics.benchmark_scores import summarize
from evaluation.statistics.paired import average_difference, paired_difference

SCORES = ("problems", "k", "mean", "low", "high", "standard_error", "pass_at", "majority", "truncated", "mean_tokens")
TESTS = ("problems", "mean", "low", "high", "standard_error", "p_value", "test", "beyond_chance", "detectable")


def over_seeds(recorded: dict[str, Tables]) -> dict[str, Tables]:
    """The runs of each recipe as one, in which every run is a sample of each problem."""
    recipes: dict[str, dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for run, results in recorded.items():
        for name, table in results.items():
            parts = recipes[run.rpartition("-")[0] + " over seeds"][name]
            number = pa.array([len(parts)] * len(table), table.schema.field("sample").type)
            parts.append(table.set_column(table.schema.get_field_index("sample"), "sample", number))
    return {run: {name: pa.concat_tables(parts) for name, parts in of.items()} for run, of in recipes.items()}


def values() -> dict[str, Any]:
    frozen: dict[str, Any] = {}
    with TemporaryDirectory(prefix="frozen-") as folder:
        runs = {run: tables(path) for run, path in unpack(Path(folder)).items()}
    for recorded in (runs, over_seeds(runs)):
        for run, results in recorded.items():
            scores = {name: summarize(table) for name, table in results.items()}
            frozen[run] = {name: {field: getattr(of, field) for field in SCORES} for name, of in scores.items()}
        for (first, before), (second, after) in pairwise(recorded.items()):
            if before.keys() == after.keys():
                tests = [paired_difference(before[name], after[name]) for name in before]
                frozen[f"{first} -> {second}"] = {
                    "average": average_difference(tests),
                    **{of.benchmark: {field: getattr(of, field) for field in TESTS} for of in tests},
                }
    return frozen
