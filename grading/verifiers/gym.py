"""The scorer of a Reasoning Gym task, in worker processes; the package ``reasoning-gym`` is the extra ``gym``."""

from collections.abc import Mapping
from typing import Any

from grading.gym_tasks import ENTRY, PACKAGE, package_version
from grading.verdict import UnfitGold
from grading.verifiers.python import FunctionOptions, FunctionVerifier
from grading.verifiers.verifier import Resources

SCORER = "grading.isolation.gym_scorer:score"


class GymOptions(FunctionOptions):
    """``task``: its name; by default the entry says it. ``entry``: the field of a row that holds the task's entry."""

    answer: str = "tag:answer"
    task: str | None = None
    entry: str = ENTRY


class GymVerifier(FunctionVerifier):
    """An entry is what a data set of the library yields: an object with question, answer and metadata, or its JSON."""

    Options = GymOptions

    def __init__(self, options: GymOptions, resources: Resources) -> None:
        package_version()
        super().__init__(options, resources, SCORER, {"task": options.task, "entry": options.entry})

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        return {**options, PACKAGE: package_version()}

    @classmethod
    def requires_fields(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options.get("entry", GymOptions.model_fields["entry"].default),)

    def expected(self, gold: str, fields: Mapping[str, Any]) -> str:
        if self.options.entry not in fields:
            raise UnfitGold(f"the row has no field {self.options.entry!r}")
        return gold
