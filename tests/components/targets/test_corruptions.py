"""Every corruption of a source is reported by the check that names it, and no honest version is reported at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corruptions import CORRUPTIONS, traces, write

from core.schemas import BENCHMARK
from targets.check.expectations import validate
from targets.config import build_config
from targets.prepare import prepare
from targets.prepared_files import Prepared

BENCHMARKS = pa.Table.from_pylist([{"benchmark": "b", "id": "0", "problem": "none of these"}], schema=BENCHMARK)
Version = Callable[..., Prepared]
QUICK = {check: name for name, (_, check) in CORRUPTIONS.items()}.values()  # one corruption for each check


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Version:
    """Prepares a version of the sources; what a file has in common with another version is filtered once."""
    cache = tmp_path_factory.mktemp("cache")

    def prepared(files: dict[str, list[Any]], tokens: Path = tokenizer, **of_b: Any) -> Prepared:
        folder = tmp_path_factory.mktemp("version")
        config = build_config({"source": write(folder / "in", files, **of_b), "workers": 1})
        return prepare(config, folder / "out", tokenizer_json=tokens, benchmarks=BENCHMARKS, cache=cache)

    return prepared


@pytest.fixture(scope="module")
def before(version: Version) -> Path:
    """The profile of the version before."""
    return version({"a": traces("a", 0), "b": traces("b", 0)}).profile


def reported(prepared: Prepared, before: Path) -> dict[str, str]:
    """The severity of each check that does not pass."""
    return {r.name: r.severity for r in validate(prepared.profile, previous=before) if not r.passed}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in CORRUPTIONS]
)
def test_each_corruption_is_named(version: Version, before: Path, name: str) -> None:
    corrupt, check = CORRUPTIONS[name]
    prepared = version({"a": traces("a", 0), "b": corrupt(traces("b", 0))})
    found = reported(prepared, before)
    assert check in found
    assert ("error" in found.values()) == (check == "sources_survive")


def test_corruptions_of_more_than_rows_are_named(version: Version, before: Path, trained: Path) -> None:
    a, b = traces("a", 0), traces("b", 0)
    assert [*reported(version({"a": a, "b": b}, license="CC-BY-NC-4.0"), before)] == ["licenses_as_before"]
    assert [*reported(version({"a": a, "b": b}, teacher="a small model"), before)] == ["teachers_as_before"]
    assert "tokenizer_as_before" in reported(version({"a": a, "b": b}, trained), before)
    assert "rows_read_stable" in reported(version({"a": a[::2], "b": b[::2]}), before)
    assert "sources_present" in reported(version({"a": a}), before)


HONEST: list[dict[str, tuple[int, float]]] = [  # the seed of each file, and how many times as many traces
    *({"a": (seed, 1.0), "b": (seed, 1.0)} for seed in range(1, 11)),
    *({"a": (0, 1.05), "b": (seed, 1.05)} for seed in range(11, 16)),
    *({"a": (0, 1.0), "b": (0, 1.0), "b_more": (seed, 0.2)} for seed in range(16, 21)),
]


VERSIONS = [
    pytest.param(files, id=str(number), marks=[pytest.mark.slow] if number % 10 else [])
    for number, files in enumerate(HONEST)
]


@pytest.mark.parametrize("files", VERSIONS)
def test_an_honest_version_is_not_reported(version: Version, before: Path, files: dict[str, tuple[int, float]]) -> None:
    rows = {name: traces(name[0], seed, rows=times) for name, (seed, times) in files.items()}
    assert reported(version(rows), before) == {}
