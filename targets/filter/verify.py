"""Answers against gold answers, by the grader that will also reward the policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from grading.grader import Grader, Verdict
from targets.read.traces import Fault

FAULTS = {
    Verdict.WRONG: "wrong",
    Verdict.NO_ANSWER: "no_box",
    Verdict.NO_THINK_END: "unclosed",
    Verdict.GOLD_UNPARSED: "gold_unparsed",
    Verdict.TIMEOUT: "verify_timeout",
    Verdict.ERROR: "verify_error",
}
LONGEST_SHOWN = 120  # characters of an answer in a detail


@dataclass(frozen=True, slots=True)
class Verified:
    """The boxed answer that agrees with the gold answer."""

    answer: str


def verify(targets: Sequence[tuple[str, str]], grader: Grader) -> list[Verified | Fault]:
    """What became of each (normalised target, gold answer): verified, or why not. Order kept; equal pairs cost once.

    The comparison processes, their time limit and the shortcut for equal texts are the grader's.
    """
    results: list[Verified | Fault] = []
    graded = grader.grade_many((target, gold, "math") for target, gold in targets)
    correct = dict.fromkeys(gold for (_, gold), grade in zip(targets, graded, strict=True) if grade.score)
    parses = {gold: grader.parses(gold) for gold in correct}
    for (_, gold), grade in zip(targets, graded, strict=True):
        if grade.verdict is Verdict.CORRECT:
            # Equal texts are correct, but a reward that cannot read the gold answer would refuse every other spelling.
            understood = parses[gold]
            fault = Fault("gold_unparsed", f"gold {_short(gold)} is only comparable as text")
            results.append(Verified(grade.extracted or "") if understood else fault)
            continue
        detail = f"answer {_short(grade.extracted)}, gold {_short(gold)}: {grade.reason}"
        results.append(Fault(FAULTS[grade.verdict], detail))
    return results


def _short(text: str | None) -> str:
    shown = text or ""
    return repr(shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…")
