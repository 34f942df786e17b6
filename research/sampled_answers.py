"""Sampled answers to the same problems before and after training, right and wrong ones, for people to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from core.files import digest_bytes
from core.text.markdown import escape_markdown, shorten
from pipelines.api import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

ANSWERS = 10
LONGEST = 800  # characters of a response
Problems = Mapping[tuple[str, str], str]  # (benchmark, id) -> text


@dataclass(frozen=True)
class Answer:
    """The answers of two models to the same problem, each with the grader's verdict."""

    benchmark: str
    problem: str
    gold: str
    before: str
    verdict_before: str
    after: str
    verdict_after: str


def draw_answers(
    before: "Mapping[str, pa.Table]", after: "Mapping[str, pa.Table]", problems: Problems
) -> tuple[Answer, ...]:
    """Choose samples of `ANSWERS` problems that both GRADED tables have, half of them right afterwards if possible.

    A problem is drawn by a digest of its name, so nobody chooses it.
    """
    earlier, later = _first_samples(before), _first_samples(after)
    common = earlier.keys() & later.keys() & problems.keys()
    common = sorted(common, key=lambda key: digest_bytes("/".join(key).encode()))
    right = [key for key in common if later[key]["verdict"] == Verdict.CORRECT]
    wrong = [key for key in common if later[key]["verdict"] != Verdict.CORRECT]
    alternating = chain.from_iterable(zip_longest(right[: max(ANSWERS // 2, ANSWERS - len(wrong))], wrong))
    drawn = [key for key in alternating if key is not None][:ANSWERS]
    return tuple(
        Answer(
            key[0],
            problems[key],
            later[key]["gold"],
            shorten(earlier[key]["response"].strip(), LONGEST),
            earlier[key]["verdict"],
            shorten(later[key]["response"].strip(), LONGEST),
            later[key]["verdict"],
        )
        for key in sorted(drawn, key=lambda key: (later[key]["verdict"] != Verdict.CORRECT, key[0]))
    )


def to_markdown(answers: tuple[Answer, ...], before: str, after: str) -> str:
    """Write the answers one after the other; texts of models are in code blocks."""
    parts = [
        f"# Answers of {escape_markdown(before)} and {escape_markdown(after)}",
        f"{len(answers)} problems that no one chose (a digest of their names did), up to half of them answered wrongly "
        "after training. Long responses lack their middle.",
    ]
    for number, answer in enumerate(answers, 1):
        parts += [
            f"## {number}. {escape_markdown(answer.benchmark)}",
            escape_markdown(answer.problem),
            f"Right: {escape_markdown(answer.gold)}",
        ]
        for name, verdict, text in (
            (before, answer.verdict_before, answer.before),
            (after, answer.verdict_after, answer.after),
        ):
            fence = "```"
            while fence in text:
                fence += "`"
            parts += [f"{escape_markdown(name)}, {verdict}:", f"{fence}text\n{text}\n{fence}"]
    return "\n\n".join(parts) + "\n"


def _first_samples(tables: "Mapping[str, pa.Table]") -> dict[tuple[str, str], dict[str, Any]]:
    names = ["benchmark", "id", "sample", "response", "gold", "verdict", "score"]
    rows = chain.from_iterable(table.select(names).to_pylist() for table in tables.values())
    return {(row["benchmark"], row["id"]): row for row in rows if row["sample"] == 0}
