"""The gates: each check fails when what it guards is broken, and a broken check has failed."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from core.errors import InputError
from core.schemas import BENCHMARK
from targets.check.checks_page import write_page
from targets.check.expectations import check_names, check_suite, load_checks, validate
from targets.check.source_drift import OF_TWO
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.settings import build_config


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Prepared:
    other = pa.Table.from_pylist([{"benchmark": "b", "id": "0", "problem": "none of these"}], schema=BENCHMARK)
    config = build_config({"embedded_rows": 120, "workers": 1, "max_target_tokens": 400})
    return prepare(config, tmp_path_factory.mktemp("out"), tokenizer_json=tokenizer, benchmarks=other)


def broken_copy(prepared: Prepared, path: Path, column: str, values: list[Any]) -> Path:
    """The profile with the first values of a column replaced."""
    table = pq.read_table(prepared.profile)
    place = table.column_names.index(column)
    changed = values + table[column].to_pylist()[len(values) :]
    pq.write_table(table.set_column(place, column, pa.array(changed, table.schema.field(column).type)), path)
    return path


def test_a_prepared_set_passes(prepared: Prepared) -> None:
    results = validate(prepared.profile)
    assert [result.name for result in results] == check_names()
    assert [result for result in results if not result.passed] == []
    assert all(result.rows == 120 and result.observed is not None for result in results)


BREAKS: dict[str, tuple[str, list[Any]]] = {
    "ids_unique": ("id", ["x", "x"]),
    "ids_present": ("id", [None]),
    "problems_not_repeated": ("problem_digest", ["d", "d"]),
    "answers_verified": ("verified", [False]),
    "golds_parse": ("gold_parses", [None]),
    "one_think_block": ("has_think", [False]),
    "answers_boxed": ("has_answer", [None]),
    "prompts_fit": ("prompt_tokens", [1025]),
    "targets_fit": ("target_tokens", [401]),
    "no_benchmark_problem": ("benchmark_overlap", [True]),
    "overlap_looked_for": ("benchmark_overlap", [None]),
    "thoughts_about_problems": ("about_problem", [False] * 30),
    "thoughts_of_problems": ("about_problem", [False] * 70),
    "equations_hold": ("wrong_equation", [True] * 10),
    "golds_distinct": ("gold_digest", ["x"] * 110),
    "no_html_escapes": ("html_escapes", [True] * 10),
    "few_near_loops": ("compression_ratio", [0.1, 0.1]),
    "targets_not_crowding_the_limit": ("target_tokens", [400] * 120),
}

ALSO = {"thoughts_of_problems": ["thoughts_about_problems"]}  # checks that fail with one


def test_each_check_fails_for_its_own_fault(prepared: Prepared, tmp_path: Path) -> None:
    for name, (column, values) in BREAKS.items():
        results = validate(broken_copy(prepared, tmp_path / f"{name}.parquet", column, values))
        assert [result.name for result in results if not result.passed] == [*ALSO.get(name, []), name]
    table = pq.read_table(prepared.profile)
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert "enough_rows" in [r.name for r in validate(tmp_path / "empty.parquet") if not r.passed]
    pq.write_table(table.append_column("more", pa.array([1] * 120)), tmp_path / "wide.parquet")
    assert [r.name for r in validate(tmp_path / "wide.parquet") if not r.passed] == ["profile_schema"]
    others = {"copied_files", "most_damaged", *OF_TWO}  # test_corruptions.py
    others |= {"most_verifier_errors"}  # test_source_verifiers.py
    drift = {check.name for check in load_checks() if check.kwargs.get("column") in others}
    assert {*BREAKS, *drift, "enough_rows", "profile_schema"} == set(check_names())


def version(prepared: Prepared, path: Path, *, source: str, tokens: float, survival: float) -> Path:
    """A profile whose first half comes from another source, with lengths scaled and another share of traces kept."""
    table = pq.read_table(prepared.profile)
    lengths = [int(tokens * length) for length in table["target_tokens"].to_pylist()]
    sources = [source] * (table.num_rows // 2) + table["source"].to_pylist()[table.num_rows // 2 :]
    for name, values in (("target_tokens", lengths), ("source", sources)):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    kept = {"embedded": {"read": 120, "kept": int(120 * survival)}}
    metadata = {**table.schema.metadata, b"sources": json.dumps(kept).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"source": "other"}, ["source_mix_stable"]),
        ({"tokens": 0.7}, ["source_lengths_stable", "mean_length_stable"]),
        ({"survival": 0.5}, ["survival_stable"]),
        ({"tokens": 1.1, "survival": 0.9}, []),
    ],
)
def test_drift_against_the_version_before_is_a_warning(
    prepared: Prepared, tmp_path: Path, changes: dict[str, Any], names: list[str]
) -> None:
    settings = {"source": "embedded", "tokens": 1.0, "survival": 1.0, **changes}
    previous = version(prepared, tmp_path / "previous.parquet", **settings)
    failed = [result for result in validate(prepared.profile, previous=previous) if not result.passed]
    assert [result.name for result in failed] == names
    assert all(result.severity == "warning" and isinstance(result.observed, float) for result in failed)


def test_the_page_of_the_checks_is_one_file_that_loads_nothing(prepared: Prepared, tmp_path: Path) -> None:
    results = validate(prepared.profile)
    hostile = replace(results[0], passed=False, observed="<script>", where="a & b")
    write_page([*results[1:], hostile], tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(result.name in page for result in results) and "target_tokens" in page
    assert page.index(hostile.name) < page.index(results[1].name), "what failed stands first"
    assert "&lt;script&gt; (a &amp; b)" in page
    assert not re.search(r"<script|<link|src=|https?:", page)


def suite(path: Path, **check: Any) -> Path:
    entry = {
        "name": "mine",
        "severity": "error",
        "description": "d",
        "type": "expect_column_values_to_be_between",
        **check,
    }
    path.write_text(yaml.safe_dump({"name": "s", "checks": [entry]}))
    return path


def test_users_add_checks_without_code(prepared: Prepared, tmp_path: Path) -> None:
    path = suite(tmp_path / "s.yaml", kwargs={"column": "target_tokens", "max_value": "$longest"})
    assert validate(prepared.profile, suite=path, parameters={"longest": 400})[0].passed
    failed = validate(prepared.profile, suite=path, parameters={"longest": 30})[0]
    assert not failed.passed and failed.failing and failed.severity == "error"
    assert str(failed.observed).startswith(f"{failed.failing} of 120: ")


def test_what_fails_is_counted_by_source_where_there_are_several(prepared: Prepared, tmp_path: Path) -> None:
    table = pq.read_table(prepared.profile)
    sources = ["law"] * 20 + ["sums"] * 100
    table = table.set_column(table.column_names.index("source"), "source", pa.array(sources, pa.string()))
    lengths = [500] * 5 + [40] * 95 + [500] * 20
    table = table.set_column(table.column_names.index("target_tokens"), "target_tokens", pa.array(lengths, pa.int32()))
    pq.write_table(table, tmp_path / "two.parquet")
    path = suite(tmp_path / "s.yaml", kwargs={"column": "target_tokens", "max_value": 400})
    (failed,) = validate(tmp_path / "two.parquet", suite=path)
    assert failed.failing == 25 and failed.observed == "25 of 120: 500; 20 of sums, 5 of law"


def test_a_check_that_breaks_has_failed_and_says_so(prepared: Prepared, tmp_path: Path) -> None:
    def error(kind: str, **kwargs: Any) -> str:
        result = validate(prepared.profile, suite=suite(tmp_path / "s.yaml", type=kind, kwargs=kwargs))[0]
        assert not result.passed and result.error and "\n" not in result.error
        return result.error

    said = error("expect_column_values_to_be_between", column="gone", max_value=1)
    assert said.startswith("kwargs.column: no column gone; the profile has id, source, ")
    said = error("expect_column_pair_values_to_be_equal", column_A="id", column_B="soruce")
    assert said.startswith("kwargs.column_B: no column soruce; the profile has id, source, ")
    said = error("expect_column_values_to_match_regex", column="id", regex="[a-")
    assert said.startswith("kwargs.regex: '[a-': Invalid regular expression: ")
    said = error("expect_column_mean_to_be_between", column="source", max_value=1)
    assert "mean" in said and "column: 'source'" in said


@pytest.mark.parametrize(
    ("kind", "kwargs", "message"),
    [
        ("be_between", {"column": "id", "max_valu": 3}, "max_valu: no such argument; it takes "),
        ("be_between", {"column": ["id"], "max_value": 3}, "column: str type expected (got ['id'])"),
    ],
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_named(
    prepared: Prepared, tmp_path: Path, kind: str, kwargs: dict[str, Any], message: str
) -> None:
    kind = f"expect_column_values_to_{kind}"
    path = suite(tmp_path / "s.yaml", type=kind, kwargs=kwargs)
    with pytest.raises(InputError) as caught:
        check_suite(build_config({}), path)
    with pytest.raises(InputError, match=re.escape(str(caught.value))):
        validate(prepared.profile, suite=path)
    said = str(caught.value)
    assert said.startswith(f"check suite {path}: mine: {kind}: kwargs.{message}") and "\n" not in said


def test_suites_that_do_not_work_are_named(prepared: Prepared, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine: no number \$unknown; known: .*max_target_tokens"):
        validate(prepared.profile, suite=suite(tmp_path / "a.yaml", kwargs={"column": "id", "max_value": "$unknown"}))
    with pytest.raises(InputError, match=r"mine: expect_column_values_to_be_unqiue: .* did you mean .*to_be_unique\?"):
        validate(prepared.profile, suite=suite(tmp_path / "b.yaml", type="expect_column_values_to_be_unqiue"))
    with pytest.raises(InputError, match="min_value and max_value cannot both be None"):
        validate(prepared.profile, suite=suite(tmp_path / "b.yaml", kwargs={"column": "id"}))
    with pytest.raises(InputError, match=r"check suite .*: checks\.0\.kwargs\.max_value: got nan, expected a number"):
        validate(prepared.profile, suite=suite(tmp_path / "n.yaml", kwargs={"column": "id", "max_value": float("nan")}))
    with pytest.raises(InputError, match="severity"):
        load_checks(suite(tmp_path / "c.yaml", severity="fatal"))
    with pytest.raises(InputError, match="give a YAML file"):
        load_checks(tmp_path / "gone.yaml")
    with pytest.raises(InputError, match="no such file; prepare targets first"):
        validate(tmp_path / "gone.parquet")
    with pytest.raises(InputError, match="no column"):
        validate(prepared.prepared)
