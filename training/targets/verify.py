"""Answers against gold answers, by the grader that will also reward the policy."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from evaluation.grading import Grader, Verdict
from training.targets.traces import Fault

FAULTS = {
    Verdict.WRONG: "wrong",
    Verdict.NO_ANSWER: "no_box",
    Verdict.NO_THINK_END: "unclosed",
    Verdict.GOLD_UNPARSED: "gold_unparsed",
    Verdict.TIMEOUT: "verify_timeout",
    Verdict.ERROR: "verify_error",
}
THREADS = 4  # they only wait for the grader's processes
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
    parses = gold_parses([g for (_, g), grade in zip(targets, graded, strict=True) if grade.score], grader)
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


def gold_parses(golds: Iterable[str], grader: Grader) -> dict[str, bool]:
    """{gold: whether answers can be compared with it}."""
    unique = list(dict.fromkeys(golds))
    with ThreadPoolExecutor(THREADS) as threads:
        return dict(zip(unique, threads.map(grader.parses, unique), strict=True))


def _short(text: str | None) -> str:
    shown = text or ""
    return repr(shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…")
