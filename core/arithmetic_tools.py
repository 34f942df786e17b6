"""Problems for a calculator: the embedded task with a tool, generated from a seed.

A problem is ``47*86-195=?``, whose numbers have two digits and whose third one may have three. Its trace calls the
calculator once per operation::

    <calculator>47*86</calculator>
    4042
    <calculator>4042-195</calculator>
    3847
    \\boxed{3847}

Training and evaluation never share an expression: its hash decides to which of them it belongs.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.arithmetic import Expression, distinct, work_out, write
from core.model.calls import Call, write_calls

TOOL = "calculator"


@dataclass(frozen=True)
class ToolProblem:
    """A problem, the content of its box, and the teacher's turns with the observations between them."""

    id: str
    problem: str
    answer: str
    turns: list[dict[str, str]]

    @property
    def trace(self) -> str:
        return "\n".join(turn["content"] for turn in self.turns)


@dataclass(frozen=True)
class Split:
    """The composition of a split: how many operations follow the product, and whether there is one."""

    title: str
    sums: int
    product: bool = True
    held_out: bool = True


SPLITS: Mapping[str, Split] = {
    "train_calls": Split("products of two numbers plus or minus a third", 1, held_out=False),
    "calls": Split("products of two numbers plus or minus a third, none of them in train_calls", 1),
    "more_calls": Split("products plus or minus two numbers: one call more than in training", 2),
    "no_calls": Split("sums of two small numbers, which need no tool", 1, product=False),
}


def tool_problems(split: str, n: int, seed: int = 0) -> list[ToolProblem]:
    """Return the first ``n`` distinct problems of ``split`` under ``seed``; a larger ``n`` only appends.

    Raises:
        InputError: the split has fewer problems.
    """
    made, rng = SPLITS[split], random.Random(f"{split}/{seed}")
    expressions = distinct(lambda: _draw(made, rng), n, f"{split!r} ({made.title})", held_out=made.held_out)
    return [as_problem(expression, split) for expression in expressions]


def as_problem(expression: Expression, split: str) -> ToolProblem:
    """Return the problem that asks for the value of ``expression``; the expression alone decides its id."""
    question, steps = f"{write(expression)}=?", work_out(expression)
    digest = hashlib.sha256(question.encode()).hexdigest()[:12]
    turns: list[dict[str, str]] = []
    for step in steps if SPLITS[split].product else ():
        call = Call(TOOL, {"expression": f"{step.left}{step.operator}{step.right}"})
        turns.append({"role": "assistant", "content": write_calls([call], "tags")})
        turns.append({"role": "tool", "content": str(step.result)})
    answer = str(steps[-1].result)
    turns.append({"role": "assistant", "content": f"\\boxed{{{answer}}}"})
    return ToolProblem(f"{split}-{digest}", question, answer, turns)


def _draw(split: Split, rng: random.Random) -> Expression:
    if not split.product:
        return (rng.randint(1, 9), "+", rng.randint(1, 9))
    while True:
        expression: list[Any] = [rng.randint(11, 99), "*", rng.randint(11, 99)]
        for _ in range(split.sums):
            expression += [rng.choice("+-"), rng.randint(11, 199)]
        if work_out(tuple(expression))[-1].result >= 0:
            return tuple(expression)
