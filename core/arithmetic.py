"""Arithmetic problems with step-by-step teacher traces: the embedded task, generated from a seed.

A problem is an expression of one-digit numbers, ``7+5-3+4=?``. Its trace works out one operation per line and boxes
the last result::

    <think>
    7+5=12
    12-3=9
    9+4=13
    </think>

    \\boxed{13}

A terse teacher does two operations in each line after the first, ``12-3+4=13``. The embedded base model cannot follow
such large steps.

Problems for a calculator, ``47*86-195=?``, have larger numbers. Their trace calls it once per operation::

    <calculator>47*86</calculator>
    4042
    <calculator>4042-195</calculator>
    3847
    \\boxed{3847}

Training and evaluation never share an expression: its hash decides to which of them it belongs.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.errors import InputError
from core.model.calls import Call, write_calls

LARGEST_TOTAL = 99  # every intermediate result lies between 0 and this
HELD_OUT_SHARE = 0.25  # share of all expressions, which only evaluation uses
FRUITLESS_DRAWS = 1_000  # after so many draws in a row without a new expression, a split counts as exhausted

Expression = tuple[int | str, ...]  # numbers and operators in turn: (7, "+", 5, "-", 3)


class Step(NamedTuple):
    """One operation of a trace."""

    left: int
    operator: str
    right: int

    @property
    def result(self) -> int:
        if self.operator == "*":
            return self.left * self.right
        return self.left + self.right if self.operator == "+" else self.left - self.right


@dataclass(frozen=True)
class Problem:
    """One problem; ``trace`` is the teacher's response, and ``answer`` is the content of its box.

    ``turns``: of a trace that calls the calculator, with the observations between them.
    """

    id: str
    problem: str
    answer: str
    trace: str
    turns: Sequence[dict[str, str]] = ()


@dataclass(frozen=True)
class Split:
    """The composition of a split: expressions of ``terms`` numbers (inclusive range) with ``products`` products."""

    title: str
    terms: tuple[int, int]
    products: int
    held_out: bool

    def draw(self, rng: random.Random) -> Expression:
        """Return a random expression of the split, or one that `is_held_out` gives to another."""
        return random_expression(rng, rng.randint(*self.terms), self.products)


@dataclass(frozen=True)
class ToolSplit:
    """The composition of a split for a calculator: how many operations follow the product, and whether there is one."""

    title: str
    sums: int
    product: bool = True
    held_out: bool = True

    def draw(self, rng: random.Random) -> Expression:
        """Return a random expression with a result from 0 on."""
        if not self.product:
            return (rng.randint(1, 9), "+", rng.randint(1, 9))
        while True:
            expression: list[int | str] = [rng.randint(11, 99), "*", rng.randint(11, 99)]
            for _ in range(self.sums):
                expression += [rng.choice("+-"), rng.randint(11, 199)]
            if work_out(tuple(expression))[-1].result >= 0:
                return tuple(expression)


SPLITS: dict[str, Split] = {
    "train": Split("sums of 5 to 7 numbers", (5, 7), 0, held_out=False),
    "test": Split("sums of 5 to 7 numbers, none of them in train", (5, 7), 0, held_out=True),
    "long": Split("sums of 8 to 9 numbers: longer than any in train", (8, 9), 0, held_out=True),
    "mul": Split("sums of 5 to 7 numbers with one product: an operation not in train", (5, 7), 1, held_out=True),
    "short": Split("sums of 2 to 4 numbers: shorter than any in train", (2, 4), 0, held_out=True),
    "train_hard": Split("sums of 6 to 7 numbers", (6, 7), 0, held_out=False),
    "hard": Split("sums of 6 to 7 numbers, none of them in train_hard", (6, 7), 0, held_out=True),
    "train_products": Split("sums of 7 to 9 numbers with two products", (7, 9), 2, held_out=False),
    "products": Split("sums of 7 to 9 numbers with two products, none in train_products", (7, 9), 2, held_out=True),
}

TOOL_SPLITS: dict[str, ToolSplit] = {
    "train_calls": ToolSplit("products of two numbers plus or minus a third", 1, held_out=False),
    "calls": ToolSplit("products of two numbers plus or minus a third, none of them in train_calls", 1),
    "more_calls": ToolSplit("products plus or minus two numbers: one call more than in training", 2),
    "no_calls": ToolSplit("sums of two small numbers, which need no tool", 1, product=False),
}


def problems(split: str, n: int, seed: int = 0, terse: float = 0.0) -> list[Problem]:
    """Return the first ``n`` distinct problems of ``split`` under ``seed``; a larger ``n`` only appends.

    Args:
        split: A key of `SPLITS` or `TOOL_SPLITS`.
        n: Number of problems.
        seed: Random seed.
        terse: Share of the problems with a terse trace, see `teacher_trace`.

    Raises:
        InputError: ``split`` is unknown, ``n`` is negative, or the split has fewer problems.
    """
    made = SPLITS.get(split) or TOOL_SPLITS.get(split)
    if made is None:
        names = ", ".join([*SPLITS, *TOOL_SPLITS])
        raise InputError(f"arithmetic split {split!r} does not exist: expected one of {names}")
    if n < 0:
        raise InputError(f"arithmetic split {split!r}: asked for {n} problems; expected 0 or more")
    rng, drawn, fruitless = random.Random(f"{split}/{seed}"), dict[Expression, None](), 0
    while len(drawn) < n:
        expression = made.draw(rng)
        if expression not in drawn and is_held_out(expression) == made.held_out:
            drawn[expression] = None
            fruitless = 0
        elif (fruitless := fruitless + 1) == FRUITLESS_DRAWS:
            raise InputError(
                f"arithmetic split {split!r} ({made.title}) has no more than about {len(drawn)} distinct problems; you "
                f"asked for {n}: ask for fewer"
            )
    return [as_problem(expression, split, terse) for expression in drawn]


def as_problem(expression: Expression, split: str, terse: float = 0.0) -> Problem:
    """Return the problem that asks for the value of ``expression``; the expression alone decides its id.

    The id also decides whether the trace belongs to the share ``terse`` of terse ones.
    """
    steps = work_out(expression)
    question = f"{write(expression)}=?"
    answer = str(steps[-1].result)
    digest = hashlib.sha256(question.encode()).hexdigest()[:12]
    is_terse = int(digest, 16) < terse * 16 ** len(digest)
    name = f"{split}-{digest}"
    if split in SPLITS:
        return Problem(name, question, answer, teacher_trace(steps, answer, terse=is_terse))
    turns = _turns(steps if TOOL_SPLITS[split].product else (), answer)
    return Problem(name, question, answer, "\n".join(turn["content"] for turn in turns), turns)


def _turns(steps: Sequence[Step], answer: str) -> list[dict[str, str]]:
    turns: list[dict[str, str]] = []
    for step in steps:
        call = Call("calculator", {"expression": f"{step.left}{step.operator}{step.right}"})
        turns.append({"role": "assistant", "content": write_calls([call], "tags")})
        turns.append({"role": "tool", "content": str(step.result)})
    return [*turns, {"role": "assistant", "content": f"\\boxed{{{answer}}}"}]


def teacher_trace(steps: Sequence[Step], answer: str, *, terse: bool = False) -> str:
    """Return the response that writes ``steps`` into the think block and then boxes ``answer``.

    Each line has one operation. In a ``terse`` trace each line but the first has two, if the second one continues the
    first. Without steps the block is empty.
    """
    lines: list[list[Step]] = []
    for step in steps:
        if terse and len(lines) > 1 and len(lines[-1]) < 2 and step.left == lines[-1][-1].result:
            lines[-1].append(step)
        else:
            lines.append([step])
    thinking = "\n".join(
        f"{line[0].left}{''.join(f'{step.operator}{step.right}' for step in line)}={line[-1].result}" for line in lines
    )
    return f"<think>\n{thinking}\n</think>\n\n\\boxed{{{answer}}}"


def write(expression: Expression) -> str:
    """Return the text of an expression.

    >>> write((7, "+", 5))
    '7+5'
    """
    return "".join(map(str, expression))


def work_out(expression: Expression) -> list[Step]:
    """Return one step per operation of ``expression``: products first, then from left to right."""
    rest, steps = list(expression), []
    while len(rest) > 1:
        at = rest.index("*") if "*" in rest else 1
        left, operator, right = rest[at - 1 : at + 2]
        step = Step(int(left), str(operator), int(right))
        rest[at - 1 : at + 2] = [step.result]
        steps.append(step)
    return steps


def random_expression(rng: random.Random, terms: int, products: int = 0) -> Expression:
    """Return a random expression of ``terms`` numbers from 1 to 9 with all intermediate results in 0..LARGEST_TOTAL."""
    while True:
        operators = rng.sample(["*"] * products + rng.choices("+-", k=terms - 1 - products), k=terms - 1)
        expression: list[int | str] = [rng.randint(1, 9)]
        for operator in operators:
            expression += [operator, rng.randint(1, 9)]
        if all(0 <= step.result <= LARGEST_TOTAL for step in work_out(tuple(expression))):
            return tuple(expression)


def is_held_out(expression: Expression) -> bool:
    """Return whether ``expression`` belongs to evaluation. Its hash decides, so that no seed can move it."""
    return hashlib.sha256(write(expression).encode()).digest()[0] < 256 * HELD_OUT_SHARE
