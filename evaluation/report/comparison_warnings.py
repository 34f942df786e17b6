"""Warnings of what differs between two results besides the model: grading, sampling settings and prompts."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from core.model.prompts import PromptRecord
from evaluation.sample_tables import grading_record, recorded

Results = Mapping[str, pa.Table]  # benchmark -> GRADED
Names = tuple[str, str]  # of the two results, for the reader


def comparison_warnings(first: Results, second: Results, names: Names, cause: str = "the model") -> list[str]:
    """Warn of what differs between two results on the benchmarks that both have.

    ``cause`` is what their difference is meant to show.
    """
    shared = [name for name in first if name in second]
    before, after = ({name: results[name] for name in shared} for results in (first, second))
    return [
        *grading_warnings(before, after, names),
        *sampling_warnings(before, after, names, cause),
        *prompt_warnings(before, after, names, cause),
    ]


def grading_warnings(first: Results, second: Results, names: Names) -> list[str]:
    """Warn of benchmarks that were graded by two verifiers, or by two rules of what counts as an answer."""
    both = " and ".join(names)
    records = {name: (grading_record(first[name]), grading_record(second[name])) for name in first}
    warnings = []
    if changed := [name for name, (one, other) in records.items() if one.get("verifiers") != other.get("verifiers")]:
        warnings.append(
            f"{', '.join(changed)}: the verifier changed after one of {both} was graded; evaluate both again before "
            "you compare them"
        )
    rules = {name: tuple(map(_rules, two)) for name, two in records.items() if all("thinking" in one for one in two)}
    if differing := {name: two for name, two in rules.items() if two[0] != two[1]}:
        said = "; ".join(f"{name}: {rule}" for name, rule in zip(names, next(iter(differing.values())), strict=True))
        warnings.append(f"{', '.join(differing)}: {both} were graded by different rules ({said}); grade both alike")
    return warnings


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


def _rules(record: Mapping[str, Any]) -> str:
    """Return which answers count, by the metadata ``grading`` of a table."""
    place = "answers after </think>" if record.get("thinking") else "answers anywhere"
    return f"{place}, cut samples by their text" if record.get("truncated") == "by_text" else place


def _samplings(results: Results) -> set[str]:
    settings = (json.loads(recorded(table, "sampling") or "{}") for table in results.values())
    return {json.dumps(values | {"samples": None}, sort_keys=True) for values in settings}


def _frames(results: Results) -> set[str]:
    frames = (PromptRecord.of(table).frame for table in results.values())
    return {frame for frame in frames if frame is not None}
