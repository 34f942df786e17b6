"""The problems that teach the embedded model to work out expressions in writing, and long ones only rarely."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from core.arithmetic import is_held_out, random_expression, teacher_trace, work_out, write


class Component(NamedTuple):
    """A share ``weight`` of the samples: expressions of ``terms`` numbers (inclusive range) with ``products`` products.

    A share ``written`` of them writes the steps; the others answer at once, after an empty think block.
    """

    terms: tuple[int, int]
    products: int
    weight: float
    written: float


def stream(components: list[Component], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield endless (problem, response) pairs without held-out expressions."""
    weights = [component.weight for component in components]
    while True:
        component = rng.choices(components, weights)[0]
        expression = random_expression(
            rng, max(rng.randint(*component.terms), component.products + 1), component.products
        )
        if is_held_out(expression):
            continue
        steps = work_out(expression)
        written = rng.random() < component.written
        yield f"{write(expression)}=?", teacher_trace(steps if written else [], str(steps[-1].result))
