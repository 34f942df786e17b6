"""Several verifiers of one response: ``all_of`` asks that each is satisfied, ``weighted`` adds up their scores."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from operator import mul
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grading.verdict import Grade, Verdict
from grading.verifiers.spec import SpecValue, VerifierSpec, open_verifier, parse_spec
from grading.verifiers.verifier import Resources, ScoredOptions, Verifier, VerifierOptions

# Of a response as a whole: they come before any score.
DECISIVE = (Verdict.TRUNCATED, Verdict.NO_THINK_END, Verdict.GOLD_UNPARSED, Verdict.TIMEOUT, Verdict.ERROR)


class CombinedOptions(VerifierOptions):
    """A combination has no answer."""

    @model_validator(mode="after")
    def _has_no_place(self) -> Self:
        if "answer" in self.model_fields_set:
            raise ValueError("answer: give it to each of the verifiers")
        return self


class AllOfOptions(CombinedOptions):
    """``verifiers``: specs, each of which says where its answer is."""

    verifiers: tuple[SpecValue, ...] = Field(min_length=1)


class Part(BaseModel):
    """A verifier and its share of the score."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    verifier: SpecValue
    weight: float = Field(1.0, gt=0)


class WeightedOptions(CombinedOptions, ScoredOptions):
    """``verifiers``: mappings with a ``verifier`` and its ``weight``; weights are divided by their sum."""

    verifiers: tuple[Part, ...] = Field(min_length=1)


class CombinedVerifier(Verifier):
    """Asks all of its verifiers; a verdict of one that is no verdict on an answer is the verdict of all."""

    def __init__(self, options: Any, resources: Resources) -> None:
        super().__init__(options, resources)
        self._stack = ExitStack()
        with ExitStack() as opened:
            self._verifiers = [
                opened.enter_context(open_verifier(spec, workers=resources.workers, limit_s=resources.limit_s))
                for spec in _specs(options.model_dump(mode="json"))
            ]
            self._stack = opened.pop_all()

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        return {**options, "digests": [spec.digest for spec in _specs(options)]}

    @classmethod
    def places(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for spec in _specs(options) for place in spec.places))

    @classmethod
    def requires_fields(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field for spec in _specs(options) for field in spec.requires_fields))

    def verify(
        self,
        response: str,
        gold: str,
        *,
        fields: Mapping[str, Any] | None = None,
        thinking: bool = True,
        truncated: bool = False,
    ) -> Grade:
        grades = [
            verifier.verify(response, gold, fields=fields, thinking=thinking, truncated=truncated)
            for verifier in self._verifiers
        ]
        decisive = next((grade for verdict in DECISIVE for grade in grades if grade.verdict is verdict), None)
        return decisive or self.combine(grades)

    @abstractmethod
    def combine(self, grades: list[Grade]) -> Grade:
        """Combine the grades of the verifiers into one."""

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        return self.verify(answer, gold, fields=fields, thinking=False)

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        return next(filter(None, (verifier.gold_problem(gold, fields) for verifier in self._verifiers)), None)

    def close(self) -> None:
        self._stack.close()


class AllOfVerifier(CombinedVerifier):
    """Solved if each verifier is; the verdict is the first failing verifier's. The score is then 0."""

    Options = AllOfOptions

    def combine(self, grades: list[Grade]) -> Grade:
        unsolved = next((grade for grade in grades if not grade.solved), None)
        if unsolved is None:
            return Grade(Verdict.CORRECT, grades[-1].extracted, grades[-1].reason)
        verdict = Verdict.WRONG if unsolved.verdict is Verdict.PARTIAL else unsolved.verdict
        return Grade(verdict, unsolved.extracted, unsolved.reason)


class WeightedVerifier(CombinedVerifier):
    """The mean of the scores by weight; the extracted answer is the heaviest verifier's."""

    Options = WeightedOptions

    def combine(self, grades: list[Grade]) -> Grade:
        weights = [Fraction(repr(part.weight)) for part in self.options.verifiers]  # 0.7 + 0.1 reaches 0.8
        scores = [Fraction(repr(grade.score)) for grade in grades]
        score = float(sum(map(mul, weights, scores)) / sum(weights))
        heaviest = grades[weights.index(max(weights))]
        reason = ", ".join(f"{grade.score:g} ({grade.reason})" for grade in grades)
        parts = tuple(zip(self.part_names, (grade.score for grade in grades), strict=True))
        grade = Grade.of_score(score, heaviest.extracted, reason, threshold=self.options.threshold)
        return replace(grade, parts=parts)

    @property
    def part_names(self) -> list[str]:
        """The types of the verifiers; a type that comes again has its number behind it."""
        types = [spec.type for spec in _specs(self.options.model_dump(mode="json"))]
        counts = [types[:place].count(name) for place, name in enumerate(types)]
        return [f"{name}_{count + 1}" if count else name for name, count in zip(types, counts, strict=True)]


def _specs(options: Mapping[str, Any]) -> Iterator[VerifierSpec]:
    for part in options["verifiers"]:
        yield parse_spec(part["verifier"] if isinstance(part, Mapping) and "verifier" in part else part, "verifier")
