"""What a verifier says of a response: the verdict, and the grade that holds it."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The outcome of grading a sample. CORRECT means solved; of the others only PARTIAL scores more than 0."""

    CORRECT = "correct"
    PARTIAL = "partial"  # a score above 0 and below the threshold of the verifier
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # nothing boxed (or chosen) in the answer part
    NO_THINK_END = "no_think_end"  # a thinking response without </think>
    TRUNCATED = "truncated"  # generation stopped at the token limit
    GOLD_UNPARSED = "gold_unparsed"  # a part of the gold answer is not read
    TIMEOUT = "timeout"  # the comparison did not end in time
    ERROR = "error"  # the pair could not be compared


class UnfitGold(ValueError):
    """A gold answer, or a row, that a verifier cannot compare with any response; the message says why."""


class Undecided(RuntimeError):
    """A comparison that failed, so that nothing follows about the answer; the message says why."""


@dataclass(frozen=True)
class Grade:
    """A verdict, the answer that it is about, its reason, and the score in [0, 1] that a verifier may give."""

    verdict: Verdict
    extracted: str | None = None
    reason: str = ""
    given_score: float | None = None
    parts: tuple[tuple[str, float], ...] = ()  # of a weighted score: the type of each verifier, and its score

    @classmethod
    def of_score(cls, score: float, extracted: str | None, reason: str, *, threshold: float = 1.0) -> "Grade":
        """Return the grade of a score in [0, 1], of which ``threshold`` and more is solved.

        >>> [str(Grade.of_score(score, None, "", threshold=0.8).verdict) for score in (0.0, 0.5, 0.9)]
        ['wrong', 'partial', 'correct']
        """
        assert 0 <= score <= 1, score
        partial = Verdict.PARTIAL if score > 0 else Verdict.WRONG
        return cls(Verdict.CORRECT if score >= threshold else partial, extracted, reason, score)

    @property
    def score(self) -> float:
        """The score that was given, or else 1 for a correct answer and 0 for any other."""
        return float(self.solved) if self.given_score is None else self.given_score

    @property
    def solved(self) -> bool:
        """Whether the score reaches the threshold of the verifier, which is 1 unless its spec says otherwise."""
        return self.verdict is Verdict.CORRECT
