"""Pass rates of problems from samples of a model."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.files import write_table
from core.schemas import BENCHMARK
from evaluation.generation.requests import Sampling, sample_requests
from evaluation.generation.teacher_traces import TRACE
from evaluation.statistics.solve_rate import as_suite, graded_difficulty, histogram_text, measure_difficulty
from grading.verifiers.spec import VerifierSpec, open_verifier

RIGHT, WRONG = (f"<think>\nhm\n</think>\n\n\\boxed{{{answer}}}" for answer in (4, 5))


def samples(path: Path, *rows: tuple[str, str, str]) -> Path:
    names = ("problem", "response", "finish_reason")
    fixed = {"answer": "4", "id": "1", "teacher": "base", "generation": "g", "tokens": 1}
    numbered = [fixed | {"sample": k} | dict(zip(names, row, strict=True)) for k, row in enumerate(rows)]
    write_table(pa.Table.from_pylist(numbered, TRACE), path)
    return path


def test_each_problem_has_its_rate_and_interval(tmp_path: Path) -> None:
    rows = [("easy", RIGHT, "stop")] * 4 + [("hard", WRONG, "stop")] * 3 + [("hard", RIGHT, "stop")]
    rows += [("cut", RIGHT, "length"), ("bare", r"\boxed{4}", "stop")]
    with open_verifier(VerifierSpec("math")) as verifier:
        table = measure_difficulty(samples(tmp_path / "samples.parquet", *rows), verifier, "law")
        bare = measure_difficulty(tmp_path / "samples.parquet", verifier, "law", thinking=False)
    measured = {row["problem"]: row for row in table.to_pylist()}
    assert {name: (row["solved"], row["samples"]) for name, row in measured.items()} == {
        "easy": (4, 4),
        "hard": (1, 4),
        "cut": (0, 1),
        "bare": (0, 1),
    }
    assert bare.to_pylist()[3]["solved"] == 1
    hard = measured["hard"]
    assert (hard["low"], hard["pass_rate"], hard["high"]) == pytest.approx((0.0456, 0.25, 0.6994), abs=1e-3)
    text = histogram_text(table).splitlines()
    assert len(text) == 10 and text[0].split()[3] == "2" and text[2].split()[3] == "1" and text[-1].split()[3] == "1"


def test_copies_of_a_problem_are_no_more_samples(tmp_path: Path) -> None:
    table = pq.read_table(samples(tmp_path / "once.parquet", ("sum", RIGHT, "stop"), ("sum", WRONG, "stop")))
    other = table.set_column(1, "answer", pa.array(["9"] * 2))
    again = table.set_column(6, "generation", pa.array(["another"] * 2))
    for tables, counts in (([table, table], (1, 2)), ([other, table, other], (1, 2)), ([table, again], (2, 4))):
        write_table(pa.concat_tables(tables), tmp_path / "samples.parquet")
        with open_verifier(VerifierSpec("math")) as verifier:
            [row] = measure_difficulty(tmp_path / "samples.parquet", verifier, "law").to_pylist()
        assert (row["solved"], row["samples"]) == counts
    suite = pa.table({"id": ["1", "2"], "problem": ["same"] * 2})
    graded = pa.table({"id": ["1", "1", "2", "2"], "sample": [0, 1] * 2, "verdict": ["correct", "wrong"] * 2})
    assert graded_difficulty(graded, suite, "base")["samples"].to_pylist() == [2]


def test_samples_of_several_models_are_not_pooled(tmp_path: Path) -> None:
    table = pq.read_table(samples(tmp_path / "one.parquet", ("sum", RIGHT, "stop"), ("sum", WRONG, "stop")))
    other = table.set_column(table.schema.names.index("teacher"), "teacher", pa.array(["other"] * 2))
    write_table(pa.concat_tables([table, other]), tmp_path / "both.parquet")
    with (
        open_verifier(VerifierSpec("math")) as verifier,
        pytest.raises(InputError, match=r"both.parquet: samples of several models \(base, other\)"),
    ):
        measure_difficulty(tmp_path / "both.parquet", verifier, "law")


def test_problems_are_a_suite_that_generation_reads() -> None:
    rows = [{"benchmark": "difficulty", "id": str(k), "problem": "1+1", "prompt": [], "gold": "2"} for k in (1, 2)]
    suite = as_suite(pa.Table.from_pylist(rows, BENCHMARK), samples=3)
    drawn = sample_requests(suite, ["difficulty"], Sampling(), lambda conversation: str(conversation))
    assert [(request.id, request.sample) for request in drawn] == [(str(k), n) for k in (1, 2) for n in range(3)]
