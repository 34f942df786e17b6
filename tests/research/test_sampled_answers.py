"""The sampled answers of a comparison: drawn by nobody, right and wrong ones, shown as they were written."""

import pyarrow as pa
import pytest

from core.schemas import GRADED
from research.sampled_answers import ANSWERS, draw_answers, to_markdown


def graded(verdicts: dict[str, str], text: str = "so \\boxed{1}") -> dict[str, pa.Table]:
    rows = [
        {
            "benchmark": "sums", "id": name, "sample": sample, "prompt": "p", "response": f"{text} {name}", "tokens": 3,
            "finish_reason": "stop", "seed": 0, "gold": "1", "extracted": "1", "verdict": verdict, "reason": "",
            "subject": None, "score": float(verdict == "correct"),
        }
        for name, verdict in verdicts.items() for sample in (0, 1)
    ]  # fmt: skip
    return {"sums": pa.Table.from_pylist(rows, schema=GRADED)}


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


@pytest.mark.parametrize(("right", "wrong", "expected"), [(30, 30, 5), (30, 2, 8), (1, 30, 1), (3, 0, 3), (0, 4, 0)])
def test_half_of_the_answers_are_right_where_there_are_as_many(right: int, wrong: int, expected: int) -> None:
    every = names(right + wrong)
    after = {name: "correct" if number < right else "wrong" for number, name in enumerate(every)}
    drawn = draw_answers(
        graded(dict.fromkeys(every, "no_answer")), graded(after), {("sums", n): f"What is {n}?" for n in every}
    )
    assert len(drawn) == len({answer.problem for answer in drawn}) == min(ANSWERS, len(every))
    assert sum(answer.verdict_after == "correct" for answer in drawn) == expected
    assert all(answer.after.endswith(answer.problem[8:-1]) and answer.verdict_before == "no_answer" for answer in drawn)


def test_the_draw_does_not_depend_on_the_order_of_the_rows() -> None:
    every, problems = names(30), {("sums", name): name for name in names(30)}
    there, back = (dict.fromkeys(some, "correct") for some in (every, every[::-1]))
    assert draw_answers(graded(there), graded(back), problems) == draw_answers(graded(back), graded(there), problems)


def test_what_a_model_writes_stays_in_its_block() -> None:
    problems = {("sums", "p0"): "What is <b>1</b>?"}
    hostile = graded({"p0": "wrong"}, "```\n# Title <script>")
    page = to_markdown(draw_answers(hostile, hostile, problems), "base", "luffy")
    assert "````text\n```\n# Title <script> p0\n````" in page and "<b>" not in page
