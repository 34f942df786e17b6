"""What people decide about single traces: it is honoured, shown as a reason of its own, and never loses a trace."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from preparing import rows, run

from core.errors import InputError
from core.schemas import BENCHMARK
from targets.select.split import reconcile, select_train

HEADER = "id,decision,reviewer,note\n"


@pytest.fixture
def source(jsonl: Any, good: Any) -> Path:
    """Traces 0 and 1, a second generation for 1, and a wrong answer."""
    again = good(1, response="<think>\nagain\n</think>\n\n\\boxed{2}")
    return jsonl(good(0), good(1), again, good(2, answer="5"), name="t.jsonl")


def test_what_a_reviewer_refuses_is_rejected_with_its_own_reason(source: Path, tmp_path: Path, tokenizer: Path) -> None:
    review = tmp_path / "review.csv"
    review.write_text(
        f'{HEADER}t.jsonl:0,refuse,Ada,"a guess, not a proof"\nt.jsonl:2,keep,Ada,\n', encoding="utf-8-sig"
    )
    prepared = run(source, tmp_path / "out", tokenizer, review=str(review))
    assert prepared.counts == {"read": 4, "kept": 1, "review": 1, "too_many_per_problem": 1, "wrong": 1}
    assert [step["filter"] for step in prepared.filter_counts] == ["wrong", "review", "too_many_per_problem"]
    refused = {row["id"]: row for row in rows(prepared.rejected)}["t.jsonl:0"]
    assert (refused["reason"], refused["detail"]) == ("review", "Ada: a guess, not a proof")
    assert refused["response"].startswith("<think>") and refused["response_chars"] == len(refused["response"])
    assert prepared.disagreements == {"a reviewer says keep, rejected as too_many_per_problem": 1}
    assert not reconcile(prepared, select_train(prepared, tmp_path / "out")).problems


def test_the_content_of_a_review_decides_and_not_its_path(source: Path, tmp_path: Path, tokenizer: Path) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text(f"{HEADER}t.jsonl:0,keep,,\nt.jsonl:1,refuse,,\n")
    other.write_text("note,id,extra,decision,reviewer\n,t.jsonl:1,x,refuse,\n\n,t.jsonl:0,,keep,\n")
    first = run(source, tmp_path / "out", tokenizer, review=str(one))
    assert run(source, tmp_path / "out", tokenizer, review=str(other)).reused
    one.write_text(f"{HEADER}t.jsonl:0,refuse,,\n")
    changed = run(source, tmp_path / "out", tokenizer, review=str(one))
    assert not changed.reused and changed.digest != first.digest
    assert changed.config.review is None  # no path of this machine is recorded


def test_a_rejected_trace_names_what_it_repeats(jsonl: Any, tmp_path: Path, tokenizer: Path, good: Any) -> None:
    problem = "Find the number of ways to seat six knights at a round table."
    near = good(1, problem=good(1)["problem"].replace("has he", "does he have"))
    items = pa.Table.from_pylist([{"benchmark": "aime24", "id": "7", "problem": problem}], schema=BENCHMARK)
    source = jsonl(good(1), good(1, response="<think>\nno\n</think>\n\n\\boxed{2}"), near, good(3, problem=problem))
    prepared = run(source, tmp_path / "out", tokenizer, benchmarks=items, near_duplicate=80)
    again, similar, contaminated = rows(prepared.rejected)
    assert (again["reason"], again["duplicate_of"], again["duplicate_problem"]) == (
        "too_many_per_problem",
        "traces.jsonl:0",
        None,
    )
    assert (similar["reason"], similar["duplicate_of"]) == ("near_duplicate", "traces.jsonl:0")
    assert (contaminated["duplicate_of"], contaminated["duplicate_problem"]) == ("aime24/7", problem)


def test_a_decision_about_no_trace_is_an_error(source: Path, tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "review.csv").write_text(f"{HEADER}t.jsonl:0,keep,,\nu.jsonl:0,keep,,\nv.jsonl:0,refuse,,\n")
    with pytest.raises(InputError, match=r"'u\.jsonl:0' and 1 more: none of the 4 traces has this id"):
        run(source, tmp_path / "out", tokenizer, review=str(tmp_path / "review.csv"))
    assert not list((tmp_path / "out").glob("*.parquet"))
