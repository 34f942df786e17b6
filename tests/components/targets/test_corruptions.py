"""Every corruption of a source is reported by the check that names it, and no honest version is reported at all."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from corruptions import CORRUPTIONS, traces, write

from core.schemas import BENCHMARK
from targets.check.expectations import load_checks, summarize, validate
from targets.check.source_drift import Version, measure, read_version
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.settings import build_config

BENCHMARKS = pa.Table.from_pylist([{"benchmark": "b", "id": "0", "problem": "none of these"}], schema=BENCHMARK)
Prepare = Callable[..., Prepared]


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Prepare:
    """Prepares a version of the sources; what a file has in common with another version is filtered once."""
    cache = tmp_path_factory.mktemp("cache")

    def prepared(files: dict[str, list[Any]], tokens: Path = tokenizer, **settings: Any) -> Prepared:
        folder = tmp_path_factory.mktemp("version")
        config = build_config({"source": write(folder / "in", files, **settings), "workers": 1})
        return prepare(config, folder / "out", tokenizer_json=tokens, benchmarks=BENCHMARKS, cache=cache)

    return prepared


@pytest.fixture(scope="module")
def before(version: Prepare) -> Path:
    """The profile of the version before."""
    return version({name: traces(name, 0) for name in "abc"}).profile


def reported(now: Path | Version, before: Path) -> dict[str, str]:
    """The severity of each check of numbers of sources that does not pass; Great Expectations needs seconds for it."""
    measured = measure(now if isinstance(now, Version) else read_version(now), read_version(before))
    return {
        check.name: check.severity
        for check in load_checks()
        if (change := measured.get(check.kwargs.get("column", "")))
        and not check.kwargs.get("min_value", -inf) <= change.value <= check.kwargs.get("max_value", inf)
    }


def renamed(version: Version) -> Version:
    """The version as if another release had other names for its files and their sources."""
    files = {name: f"v2-{name}" for name in version.files}
    return replace(
        version,
        rows=version.rows.assign(source=version.rows["source"].replace(files)),
        sources={files[name]: counts for name, counts in version.sources.items()},
        blocks={f"v2-{name}": counts for name, counts in version.blocks.items()},
        files={files[name]: f"v2-{block}" for name, block in version.files.items()},
    )


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_is_named(version: Prepare, before: Path, name: str) -> None:
    corrupt, check = CORRUPTIONS[name]
    now = read_version(version({"a": traces("a", 0), "b": corrupt(traces("b", 0)), "c": traces("c", 0)}).profile)
    found = reported(now, before)
    assert check in found
    assert ("error" in found.values()) == (found[check] == "error" or check == "thoughts_reach_answers")
    assert reported(renamed(now), before) == found


def test_corruptions_of_more_than_rows_are_named(version: Prepare, before: Path, trained: Path) -> None:
    def reports(*arguments: Any, **settings: Any) -> list[str]:
        return [*reported(version(*arguments, **settings).profile, before)]

    a, b, c = (traces(name, 0) for name in "abc")
    assert reports({"a": a, "b": b, "c": c}, license="CC-BY-NC-4.0") == ["licenses_as_before"]
    assert reports({"a": a, "b": b, "c": c}, teacher="a small model") == ["teachers_as_before"]
    assert "tokenizer_as_before" in reports({"a": a, "b": b, "c": c}, trained)
    assert "rows_read_stable" in reports({"a": a[::2], "b": b[::2]})
    assert "sources_present" in reports({"a": a})
    assert "files_differ" in reports({"a": a, **{f"b-{number}": b for number in range(10)}})


def test_the_last_word_is_what_blocks_with_the_filter_behind_it(version: Prepare, before: Path) -> None:
    corrupt, _ = CORRUPTIONS["golds shifted by a row"]
    now = version({"a": traces("a", 0), "b-2": corrupt(traces("b", 0)), "c": traces("c", 0)})
    assert re.fullmatch(
        r"1 check blocks: sources_survive \(b-2 \(b before\): wrong took 600 of 600 traces, \d+ of 600 before\)",
        summarize(validate(now.profile, previous=before))[-1],
    )


def test_a_damaged_copy_of_a_benchmark_problem_is_found(tmp_path: Path, tokenizer: Path) -> None:
    problem = "Señor Muñoz über die Größe naïve façade: área de 9 cm² ≤ 12 cm² où √2 × π ≈ ½ · ∑ é è ê ñ ü ö ß ∞ ≥ ≠?"
    row = {**traces("c", 0)[0], "problem": problem.encode().decode("cp1252", "ignore")}
    benchmark = pa.Table.from_pylist([{"benchmark": "b", "id": "0", "problem": problem}], schema=BENCHMARK)
    config = build_config({"source": write(tmp_path, {"c": [row]}), "workers": 1})
    counts = prepare(config, tmp_path / "out", tokenizer_json=tokenizer, benchmarks=benchmark).counts
    assert counts["contaminated"] == 1


HONEST: list[dict[str, tuple[int, float]]] = [  # the seed of each file, and how many times as many traces
    {"a": (1, 1.0), "b": (1, 1.0)},
    {"a": (0, 1.05), "b": (11, 1.05)},
    {"a": (0, 1.0), "b": (0, 1.0), "b_more": (16, 0.2)},
]


@pytest.mark.parametrize("files", HONEST)
def test_an_honest_version_is_not_reported(version: Prepare, before: Path, files: dict[str, tuple[int, float]]) -> None:
    rows = {name: traces(name[0], seed, rows=times) for name, (seed, times) in {**files, "c": (0, 1)}.items()}
    now = read_version(version(rows).profile)
    assert reported(now, before) == reported(renamed(now), before) == {}


def test_the_same_rows_in_another_form_are_not_reported(version: Prepare, before: Path) -> None:
    a, b, c = (traces(name, 0) for name in "abc")
    shuffled = Random(0).sample(b, len(b))
    columns = [{"n": 1, "question": row["problem"], "answer": row["answer"], "response": row["response"]} for row in b]
    for rows, name, suffix in ((shuffled, "b", ""), (columns, "b", ""), (b, "b", ".gz"), (b, "b-2", "")):
        assert reported(version({"a": a, name: rows, "c": c}, suffix=suffix).profile, before) == {}
