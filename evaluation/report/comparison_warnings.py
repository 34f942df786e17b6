"""Warnings of what differs between two results besides the model: verifiers, sampling settings and prompts."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from core.model.prompts import PromptRecord
from evaluation.sample_tables import grading_record, recorded

if TYPE_CHECKING:
    import pyarrow as pa

Results = Mapping[str, "pa.Table"]  # benchmark -> GRADED
Names = tuple[str, str]  # of the two results, for the reader


def comparison_warnings(first: Results, second: Results, names: Names, cause: str = "the model") -> list[str]:
    """Warn of what differs between two results on the benchmarks that both have.

    ``cause`` is what their difference is meant to show.
    """
    shared = [name for name in first if name in second]
    before, after = ({name: results[name] for name in shared} for results in (first, second))
    return [
        *verifier_warnings(before, after, names),
        *sampling_warnings(before, after, names, cause),
        *prompt_warnings(before, after, names, cause),
    ]


def verifier_warnings(first: Results, second: Results, names: Names) -> list[str]:
    """Warn of benchmarks whose verifier, such as a function of the user's, changed between the two gradings."""
    verifiers = [
        {name: grading_record(results[name]).get("verifiers") for name in first} for results in (first, second)
    ]
    changed = [name for name in first if verifiers[0][name] != verifiers[1][name]]
    if not changed:
        return []
    return [
        f"{', '.join(changed)}: the verifier changed after one of {' and '.join(names)} was graded; evaluate both "
        "again before you compare them"
    ]


def sampling_warnings(first: Results, second: Results, names: Names, cause: str) -> list[str]:
    """Warn of other sampling settings; the number of samples changes no sample."""
    if _samplings(first) == _samplings(second):
        return []
    return [
        f"{' and '.join(names)} were sampled with different settings: {cause} is not the only cause of their difference"
    ]


def prompt_warnings(first: Results, second: Results, names: Names, cause: str) -> list[str]:
    """Warn of other prompts, where both results record theirs."""
    before, after = (_frames(results) for results in (first, second))
    if not before or not after or before == after:
        return []
    return [f"{' and '.join(names)} got different prompts: {cause} is not the only cause of their difference"]


def _samplings(results: Results) -> set[str]:
    settings = (json.loads(recorded(table, "sampling") or "{}") for table in results.values())
    return {json.dumps(values | {"samples": None}, sort_keys=True) for values in settings}


def _frames(results: Results) -> set[str]:
    frames = (PromptRecord.of(table).frame for table in results.values())
    return {frame for frame in frames if frame is not None}
