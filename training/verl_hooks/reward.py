"""The reward: the verifiers of targets and benchmarks, so that training and evaluation agree on right answers.

A penalty for long responses is taken off later, by `training.algorithms.advantage`.
"""

import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from core.model.prompts import must_end_thoughts
from grading.row_fields import PROBLEM, row_fields
from grading.verdict import Verdict
from grading.verifiers.combined import WeightedVerifier
from grading.verifiers.math import MathVerifier, WholeTextVerifier
from grading.verifiers.spec import VerifierSpec, open_verifier, parse_spec
from grading.verifiers.verifier import Verifier
from training.algorithms.groups import SOLVED

FINAL = "final_turn"  # entry of an episode's extra fields: the text that states the answer
TRUNCATED = "truncated"  # entry of a sample's extra fields: it was cut at the response limit, and so scores 0
RULES = {"boxed": "math", "whole-text": "math_whole_text"}  # verifiers of mathematics
FEW_ERRORS = 0.05  # share of a step's samples whose verifier may fail


_OPENED: dict[VerifierSpec, Verifier] = {}  # one per spec and reward process


@cache
def verifier_of(data_source: str, verifiers: str, rule: str) -> Verifier:
    """Return the verifier of a source; sources of one spec share it. What it starts, it starts when it needs it."""
    specs = json.loads(verifiers)
    spec = parse_spec(specs[data_source] if specs else "math", f"verifier of {data_source}")
    spec = parse_spec(RULES[rule], "rule") if spec.type == "math" and rule != "boxed" else spec
    if spec not in _OPENED:
        _OPENED[spec] = open_verifier(spec, workers=1)
    return _OPENED[spec]


def close_verifiers() -> None:
    """End what the verifiers of this process have started; the next sample opens them anew."""
    for verifier in _OPENED.values():
        verifier.close()
    _OPENED.clear()
    verifier_of.cache_clear()


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    rule: str = "boxed",
    thinking: bool = True,
    verifiers: str = "{}",
) -> dict[str, Any]:
    """Return the score in [0, 1] by the verifier of ``data_source``, whether it solves the problem, and the failure.

    A verifier `weighted` returns the score of each part, too, by its type; 0 for a response that none could grade.

    verl's reward workers call it once per sample, off-policy samples included. With ``thinking`` a response without a
    closing tag scores 0.

    Args:
        extra_info: Fields of the row, and of the sample: `TRUNCATED`, the question as `PROBLEM`, and where there are
            tools the last turn as `FINAL`, in which thoughts need to be closed if any are opened.
        rule: where the answer is in mathematics: "boxed", or "whole-text" as in the published run.
        verifiers: the spec of each source, as JSON; none: all are mathematics.
    """
    extra = extra_info or {}
    verifier = verifier_of(data_source, verifiers, rule)
    fields = row_fields(data_source, extra.get(PROBLEM), extra.get("fields"))
    truncated = bool(extra.get(TRUNCATED))
    if (final := extra.get(FINAL)) is not None:  # the answer of an observation does not count
        solution_str, thinking = final, thinking and must_end_thoughts(final, is_episode=True)
    grade = verifier.verify(solution_str, ground_truth, fields=fields, thinking=thinking, truncated=truncated)
    # Mathematics is compared as far as the answer allows: a failure there is the answer's.
    failed = grade.verdict is Verdict.ERROR and not isinstance(verifier, MathVerifier | WholeTextVerifier)
    names = verifier.part_names if isinstance(verifier, WeightedVerifier) else []
    return (
        dict.fromkeys(names, 0.0)
        | dict(grade.parts)
        | {
            "score": grade.score,
            "acc": grade.score,
            "solved": grade.solved,
            "error": grade.reason if failed else "",
        }
    )


compute_score_whole_text = partial(compute_score, rule="whole-text")
"""As `compute_score`; in mathematics, for any answer after the first ``</think>``, boxed or not: the published rule."""


def reward_info(extra_fields: Any) -> Mapping[str, Any]:
    """Return what the reward function says of a sample, from the extra fields that verl stores with it."""
    return getattr(extra_fields, "data", extra_fields).get("reward_extra_info", {})


def is_solved(info: Mapping[str, Any], score: float) -> bool:
    """Return whether a sample is right: as its verifier says, or by its score where another function gave it."""
    return bool(info.get("solved", score >= SOLVED))


def require_few_errors(step: int, errors: list[str], sources: list[str]) -> None:
    """Raise a RuntimeError that quotes the first of ``errors`` if more than `FEW_ERRORS` of the samples have one.

    Args:
        errors: of each sample; "" where its verifier did not fail.
        sources: Source of each sample.
    """
    failed = [number for number, error in enumerate(errors) if error]
    if len(failed) > FEW_ERRORS * len(errors):
        named = ", ".join(sorted({sources[number] for number in failed}))
        raise RuntimeError(
            f"step {step}: the verifier of {named} failed on {len(failed)} of {len(errors)} samples, more than "
            f"{FEW_ERRORS:.0%}; the first: {errors[failed[0]]}. Correct the verifier and prepare the targets again"
        )
