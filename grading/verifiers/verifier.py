"""What every verifier has in common: where the answer is, what a response without one gets, and many at once."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from grading.answers.extraction import BOXED, PLACES, RESPONSE, answer_part, find_answer, is_place, missing_at
from grading.verdict import Grade, Undecided, UnfitGold, Verdict


class Item(NamedTuple):
    """A response to grade: the gold answer and the fields of its row, and whether it was cut at the token limit."""

    response: str
    gold: str
    fields: Mapping[str, Any] | None = None
    truncated: bool = False


@dataclass(frozen=True)
class Resources:
    """What a verifier may use: ``workers`` answers at once, and ``limit_s`` seconds for each."""

    workers: int = 2
    limit_s: float = 5.0


class VerifierOptions(BaseModel):
    """The options that every type has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    answer: str = Field(BOXED, description="Where the answer is.")

    @field_validator("answer")
    @classmethod
    def _is_place(cls, value: str) -> str:
        if not is_place(value):
            raise ValueError(f"expected one of {', '.join(PLACES)}")
        return value


class ScoredOptions(VerifierOptions):
    """The options of a type with scores between 0 and 1."""

    threshold: float = Field(1.0, gt=0, le=1, description="The lowest score of a response that counts as solved.")


class Verifier:
    """Grades responses. It is thread-safe, and a context manager that ends what it started."""

    Options: ClassVar[type[VerifierOptions]] = VerifierOptions

    def __init__(self, options: Any, resources: Resources) -> None:
        self.options = options
        self.resources = resources

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        """Return what decides the verdicts of a spec with ``options``, as a JSON value."""
        return options

    @classmethod
    def places(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return where the answer is, for a spec with ``options``."""
        return (options.get("answer", cls.Options.model_fields["answer"].default),)

    @classmethod
    def requires_fields(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields that a row must have besides its gold answer, for a spec with ``options``."""
        return ()

    def verify(
        self,
        response: str,
        gold: str,
        *,
        fields: Mapping[str, Any] | None = None,
        thinking: bool = True,
        truncated: bool = False,
    ) -> Grade:
        """Grade one response; one that was ``truncated`` at the token limit scores 0 whatever it contains.

        Args:
            fields: further fields of the row, such as the options of a question or the tests of a task.
            thinking: whether an answer counts only after ``</think>``.
        """
        part = self.part(response, thinking=thinking)
        answer = None
        if part is not None:
            answer = response if self.options.answer == RESPONSE else self.extract(part, gold, fields or {})
        if truncated:
            return Grade(Verdict.TRUNCATED, answer, "stopped at the token limit")
        if part is None:
            return Grade(Verdict.NO_THINK_END, None, "no </think>")
        if not answer:
            return Grade(Verdict.NO_ANSWER, None, missing_at(self.options.answer))
        return self.grade_answer(answer, gold, fields or {})

    def verify_many(self, items: Iterable[Item], *, thinking: bool = True) -> list[Grade]:
        """Return the grades of items in their order, several at once."""

        def grade(item: Item) -> Grade:
            return self.verify(
                item.response, item.gold, fields=item.fields, thinking=thinking, truncated=item.truncated
            )

        with ThreadPoolExecutor(self.resources.workers) as threads:
            return list(threads.map(grade, items))

    def part(self, response: str, *, thinking: bool) -> str | None:
        """Return the part of a response that states the answer; None if it has none."""
        return answer_part(response, thinking=thinking)

    def extract(self, part: str, gold: str, fields: Mapping[str, Any]) -> str | None:
        """Return the answer in the part of a response after its thoughts; None if it has none."""
        return find_answer(part, self.options.answer)

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        """Return the grade of an answer, which is not empty."""
        try:
            score, reason = self.compare(answer, self.expected(gold, fields))
        except UnfitGold as error:
            return Grade(Verdict.GOLD_UNPARSED, answer, str(error))
        except Undecided as error:
            return Grade(Verdict.ERROR, answer, str(error))
        if isinstance(score, bool):
            return Grade(Verdict.CORRECT if score else Verdict.WRONG, answer, reason)
        return Grade.of_score(score, answer, reason, threshold=self.options.threshold)

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        """Return why ``gold`` (or its fields) does not fit this verifier; None if it fits."""
        try:
            self.expected(gold, fields or {})
        except UnfitGold as error:
            return str(error)
        return None

    def expected(self, gold: str, fields: Mapping[str, Any]) -> Any:
        """Return what answers are compared with: a gold answer as it is read.

        Raises:
            UnfitGold: it cannot be compared with any answer.
        """
        return gold

    def compare(self, answer: str, expected: Any) -> tuple[bool | float, str]:
        """Return whether an answer is right, or the score of one with `ScoredOptions`, and the reason.

        Raises:
            Undecided: the comparison failed.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither compare nor grade_answer")

    def close(self) -> None:
        """End what this verifier started; it grades nothing afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
