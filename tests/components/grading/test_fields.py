"""A verifier that reads fields of a row gives one verdict in targets, difficulty, rewards and benchmarks."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_files import entry, write_lines

from core.errors import InputError
from core.files import write_table
from core.schemas import SAMPLE
from evaluation.benchmarks.benchmark_problems import read_benchmark, read_suite
from evaluation.generation.teacher_traces import TRACE, read_problems
from evaluation.sample_tables import problem_digests, read_suite_file
from evaluation.statistics.solve_rate import as_suite, measure_difficulty
from grading.graded_table import Verifiers, grade_table
from grading.verifiers.spec import open_verifier
from targets.prepare import prepare
from targets.problems import read_problems as problems_of_sources
from targets.settings import build_config
from training.verl_hooks.reward import compute_score

FUNCTION = '''
def score(data_source, solution_str, ground_truth, extra_info):
    """Right is the answer with the unit that the row asks for, in the domain that the source is called."""
    return float(solution_str == f"{ground_truth} {extra_info['about']['unit']}" and data_source == "mine")
'''
SPELL = {"question": "Spell sun backward.", "answer": "nus", "metadata": {"source_dataset": "spell_backward"}}


class Case(NamedTuple):
    """A verifier with a row that it cannot grade without the row's fields, and the end of a right response."""

    verifier: Any
    fields: Any
    row: dict[str, Any]
    right: str


CASES = {
    "gym": Case("gym", ["entry"], {"q": "Spell sun backward.", "a": "nus", "entry": SPELL}, "<answer>nus</answer>"),
    "choice": Case("choice", ["options"], {"q": "Which?", "a": "blue", "options": ["red", "blue"]}, r"\boxed{B}"),
    "python": Case(
        {"type": "python", "path": "mine.py:score", "answer": "after_thoughts"},
        {"about": "more.about"},
        {"q": "How far?", "a": "7", "more": {"about": {"unit": "km"}}},
        "7 km",
    ),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    if request.param == "gym":
        pytest.importorskip("reasoning_gym", reason="make gym installs it")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTION)
    return CASES[request.param]


def response(end: str) -> str:
    return f"<think>\nI look at it.\n</think>\n\n{end}"


def verdicts(suite: pa.Table, case: Case) -> list[str]:
    """Those on a right and a wrong response to each problem of a suite."""
    fixed = {"prompt": "p", "tokens": 1, "finish_reason": "stop", "seed": 0}
    names = [{"benchmark": row["benchmark"], "id": row["id"]} for row in suite.to_pylist()]
    answers = [response(case.right), response(r"<answer>x</answer> \boxed{A}")]
    rows = [fixed | name | {"sample": k, "response": text} for name in names for k, text in enumerate(answers)]
    with Verifiers(workers=1) as verifiers:
        return grade_table(pa.Table.from_pylist(rows, schema=SAMPLE), suite, verifiers)["verdict"].to_pylist()


def test_targets_difficulty_and_rewards(
    case: Case, tmp_path: Path, tokenizer: Path, jsonl: Callable[..., Path]
) -> None:
    path = jsonl(case.row | {"r": response(case.right)}, name="mine.jsonl")
    source = {"path": str(path), "verifier": case.verifier, "fields": case.fields}
    source["mapping"] = {"problem": "q", "answer": "a", "response": "r"}
    config = build_config({"source": [source], "workers": 1})
    prepared = prepare(config, tmp_path / "out", tokenizer_json=tokenizer)
    assert prepared.counts == {"read": 1, "kept": 1}
    [row] = pq.read_table(prepared.prepared).to_pylist()
    specs = json.dumps({"mine": config.sources[0].spec.to_json()})
    gold, info = row["reward_model"]["ground_truth"], row["extra_info"]
    for text, score in ((response(case.right), 1.0), (response("no"), 0.0)):
        reward = compute_score(row["data_source"], text, gold, info, verifiers=specs)
        assert reward["score"] == score and not reward["error"]
    write_table(as_suite(problems_of_sources(config, tokenizer), 2), tmp_path / "problems.parquet")
    assert verdicts(read_suite_file(tmp_path / "problems.parquet"), case) == ["correct", "wrong"]


def test_benchmarks(case: Case, tmp_path: Path) -> None:
    write_lines(tmp_path / "mine.jsonl", case.row)
    benchmark = entry(case.verifier, fields=case.fields)
    suite = read_benchmark(benchmark, [tmp_path])
    assert verdicts(suite, case) == ["correct", "wrong"]
    write_table(suite, tmp_path / "suite.parquet")
    assert verdicts(read_suite_file(tmp_path / "suite.parquet"), case) == ["correct", "wrong"]


def test_traces_of_a_teacher(case: Case, tmp_path: Path, tokenizer: Path) -> None:
    write_lines(tmp_path / "problems.jsonl", case.row)
    source = {"path": "generated", "name": "mine", "verifier": case.verifier, "fields": case.fields}
    config = build_config({"source": [source], "workers": 1})
    [problem] = read_problems(tmp_path / "problems.jsonl", "q", "a", config.sources[0].fields)
    fixed = {"sample": 0, "teacher": "t", "generation": "g", "tokens": 1, "finish_reason": "stop"}
    row = {"problem": problem.text, "answer": problem.answer, "id": "1", "fields": problem.fields} | fixed
    rows = [row | {"response": response(text)} for text in (case.right, "no")]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*TRACE, pa.field("fields", pa.string())]))
    write_table(table, tmp_path / "traces.parquet")
    with open_verifier(config.sources[0].spec, workers=1) as verifier:
        [rate] = measure_difficulty(tmp_path / "traces.parquet", verifier, "mine").to_pylist()
    assert (rate["solved"], rate["samples"]) == (1, 2)
    generated = tmp_path / "traces.parquet"
    prepared = prepare(config, tmp_path / "out", tokenizer_json=tokenizer, generated=generated)
    assert (prepared.counts["read"], prepared.counts["kept"]) == (2, 1)


def test_a_benchmark_without_fields_has_the_digest_that_it_always_had(tmp_path: Path) -> None:
    write_lines(tmp_path / "mine.jsonl", {"q": "1+1?", "a": 2})
    suite = read_suite([entry()], [tmp_path])
    assert problem_digests(suite) == problem_digests(suite.drop_columns(["fields"]))


MISSING = "the verifier gym reads the field 'entry', and the {} has only data_source, problem, {}: name its column in"


def test_a_field_that_a_verifier_needs_is_asked_for_before_anything_is_read() -> None:
    source = {"path": "nowhere.jsonl", "verifier": "gym", "fields": ["item"]}
    with pytest.raises(InputError, match=MISSING.format("source nowhere.jsonl", "item")):
        build_config({"source": [source]})
    with pytest.raises(ValueError, match=MISSING.format("benchmark mine", "item")):
        entry("gym", fields=["item"])
    code = {"type": "code", "tests": "tests"}
    with pytest.raises(
        ValueError, match="the verifier all_of reads the field 'tests', and the benchmark mine has only"
    ):
        entry({"type": "all_of", "verifiers": [code, "exact"]})


@pytest.mark.parametrize(
    ("verifier", "row", "more", "message"),
    [
        ("number", {"a": "seven"}, {}, "problem .*: the gold answer 'seven' does not fit the verifier number"),
        ("json", {"a": "{"}, {}, "does not fit the verifier json"),
        ("choice", {"a": "grey", "options": ["red", "blue"]}, {"fields": ["options"]}, "no label of an option"),
        pytest.param(
            {"type": "code", "tests": "t"},
            {"a": "1", "t": "x = 1"},
            {"fields": ["t"]},
            "there are no tests",
            marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap: make test-deps installs it"),
        ),
        ("exact", {"a": "1"}, {"fields": ["t"]}, "row 1: no column 't'; the row has q, a. Correct `fields`"),
    ],
)
def test_a_gold_answer_that_does_not_fit_is_refused_before_sampling(
    tmp_path: Path, verifier: Any, row: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    write_lines(tmp_path / "mine.jsonl", {"q": "What?", **row})
    with pytest.raises(InputError, match=message):
        read_benchmark(entry(verifier, **more), [tmp_path])
