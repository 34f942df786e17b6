"""Tables of samples with verdicts: each row by the verifier of its problem, none lost, the rules on record."""

import json

import pyarrow as pa
import pytest

from core.errors import InputError
from core.schemas import BENCHMARK, SAMPLE, TURNS
from grading.graded_table import Verifiers, grade_table, verifier_digests
from grading.verifiers.spec import parse_spec


@pytest.fixture(scope="module")
def verifiers():
    with Verifiers(workers=2, limit_s=20.0) as verifiers:
        yield verifiers


def think(text: str) -> str:
    return f"<think>\nhm\n</think>\n\n{text}"


def samples(responses: dict[str, list[str | None]], template: dict | None = None) -> pa.Table:
    rows = [
        {"benchmark": "b", "id": name, "sample": k, "prompt": "p", "response": text, "finish_reason": "stop"}
        for name, texts in responses.items()
        for k, text in enumerate(texts)
    ]  # fmt: skip
    metadata = {"template": json.dumps(template)} if template else None
    return pa.Table.from_pylist(rows, schema=SAMPLE.with_metadata(metadata))


def suite(*names: str, verifier: str = "math") -> pa.Table:
    rows = [{"benchmark": "b", "id": name, "gold": "4", "verifier": verifier, "subject": "Sums"} for name in names]
    return pa.Table.from_pylist(rows, schema=BENCHMARK)


def test_each_sample_keeps_its_answer_verdict_and_reason(verifiers):
    table = grade_table(samples({"p": [think("\\boxed{4}"), "", None, "\\boxed{4}"]}), suite("p"), verifiers)
    assert table.select(["extracted", "verdict", "reason", "score", "subject"]).to_pylist() == [
        {"extracted": "4", "verdict": "correct", "reason": "same text", "score": 1.0, "subject": "Sums"},
        {"extracted": None, "verdict": "no_think_end", "reason": "no </think>", "score": 0.0, "subject": "Sums"},
        {"extracted": None, "verdict": "no_think_end", "reason": "no </think>", "score": 0.0, "subject": "Sums"},
        {"extracted": None, "verdict": "no_think_end", "reason": "no </think>", "score": 0.0, "subject": "Sums"},
    ]


def test_the_template_says_whether_thoughts_must_end(verifiers):
    unclosed = {"p": ["\\boxed{4}"]}
    for template, expected in (({"thinking": True}, 0.0), ({"thinking": False}, 1.0), (None, 0.0)):
        table = grade_table(samples(unclosed, template), suite("p"), verifiers)
        assert table["score"].to_pylist() == [expected]
        grading = {
            "thinking": expected == 0.0,
            "truncated": "zero",
            "verifiers": {"math": parse_spec("math", "").digest},
        }
        recorded = json.loads(table.schema.metadata[b"grading"])
        assert recorded.pop("problems") and recorded == grading
    assert grade_table(samples(unclosed), suite("p"), verifiers, thinking=False)["score"].to_pylist() == [1.0]


def test_the_last_turn_of_an_episode_ends_its_thoughts_if_it_has_any(verifiers):
    table = samples({"p": ["\\boxed{4}", "<think> \\boxed{4}", think("\\boxed{4}")]})
    turns = [[{"role": "assistant", "content": text}] for text in table["response"].to_pylist()]
    graded = grade_table(table.append_column(TURNS, [turns]), suite("p"), verifiers, thinking=True)
    assert graded["verdict"].to_pylist() == ["correct", "no_think_end", "correct"]
    assert graded["turns"].to_pylist() == turns


@pytest.mark.parametrize(
    ("table", "problems", "expected"),
    [
        (samples({"p": ["a"]}), suite("p", verifier="vibes"), r"suite, b: no verifier 'vibes'; expected one of math, "),
        (samples({"p": ["a", "b"], "q": ["a"]}), suite("p", "q"), "3 rows over 2 problems do not cover the 2"),
        (samples({"p": ["a"]}), suite("p", "q"), "do not cover the 2 problems"),
        (pa.concat_tables([samples({"p": ["a"]})] * 2), suite("p"), "1 rows repeat a sample of the same problem"),
        (SAMPLE.empty_table(), suite("p"), "samples of no benchmark"),
        (samples({"p": ["a"]}).slice(0), suite("p").slice(1), "samples of b: not in the suite, which has "),
    ],
)
def test_tables_that_would_lose_or_double_rows_are_refused(verifiers, table, problems, expected):
    with pytest.raises(InputError, match=expected):
        grade_table(table, problems, verifiers)


@pytest.mark.parametrize(
    ("changes", "same"),
    [({}, True), ({"subject": "Roots"}, True), ({"problem": "3+1?"}, False), ({"gold": "4.0"}, False)],
)
def test_the_problems_and_their_gold_answers_are_on_record(verifiers, changes, same):
    answers = samples({"p": [think("\\boxed{4}")], "q": [think("\\boxed{4}")]})
    rows = suite("q", "p").to_pylist()
    other = pa.Table.from_pylist([rows[0] | changes, rows[1]], schema=BENCHMARK)
    first, second = (
        json.loads(grade_table(answers, problems, verifiers).schema.metadata[b"grading"])["problems"]
        for problems in (suite("p", "q"), other)
    )
    assert (first == second) is same


def test_a_sample_that_was_cut_scores_zero_or_by_its_text(verifiers):
    table = samples({"p": [think("\\boxed{4}"), think("\\boxed{5}")]})
    cut = table.set_column(
        table.schema.get_field_index("finish_reason"), "finish_reason", pa.array(["length"] * 2, pa.string())
    )
    graded = grade_table(cut, suite("p"), verifiers)
    assert (graded["score"].to_pylist(), graded["verdict"].to_pylist()) == ([0.0, 0.0], ["truncated"] * 2)
    by_text = grade_table(cut, suite("p"), verifiers, truncated="by_text")
    assert by_text["score"].to_pylist() == [1.0, 0.0]
    assert json.loads(by_text.schema.metadata[b"grading"])["truncated"] == "by_text"


def test_each_problem_has_its_verifier_and_its_right_answers(verifiers):
    exact = json.dumps({"type": "exact", "answer": "last_line"})
    rows = [
        {"id": "sum", "problem": "2+2=?", "gold": "4", "verifier": "math"},
        {"id": "city", "problem": "Which city?", "gold": "Lima", "alternatives": ["Cusco"], "verifier": exact},
        {"id": "colour", "problem": "Which?\nA. red\nB. blue", "gold": "B", "verifier": "choice"},
    ]
    problems = pa.Table.from_pylist([{"benchmark": "b", **row} for row in rows], schema=BENCHMARK)
    responses = {"sum": "\\boxed{4.0}", "city": "Perhaps\nCusco", "colour": "\\boxed{blue}"}
    right = {name: [think(text), think("\\boxed{A}")] for name, text in responses.items()}
    graded = grade_table(samples(right), problems, verifiers)
    assert [(row["id"], row["score"], row["gold"]) for row in graded.to_pylist()] == [
        ("sum", 1.0, "4"), ("sum", 0.0, "4"),
        ("city", 1.0, "Cusco"), ("city", 0.0, "Lima"),
        ("colour", 1.0, "B"), ("colour", 0.0, "B"),
    ]  # fmt: skip
    recorded = json.loads(graded.schema.metadata[b"grading"])["verifiers"]
    assert recorded.keys() == {"math", exact, "choice"}
    assert verifier_digests(problems, "b") == sorted(recorded.values())
