"""What the base model is taught: how to work out an expression in writing, and to seldom do so when it is long."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from core.arithmetic import draw, is_held_out, teacher_trace, work_out, write


class Component(NamedTuple):
    """Expressions of ``terms`` numbers (inclusive range) with ``products`` products, a ``weight`` of all samples.

    A share ``written`` of its samples writes the steps; the others answer at once, in an empty think block.
    """

    terms: tuple[int, int]
    products: int
    weight: float
    written: float


def stream(components: list[Component], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Endless (problem, response) pairs; no held-out expression is among them."""
    weights = [component.weight for component in components]
    while True:
        component = rng.choices(components, weights)[0]
        expression = draw(rng, max(rng.randint(*component.terms), component.products + 1), component.products)
        if is_held_out(expression):
            continue
        steps = work_out(expression)
        written = rng.random() < component.written
        yield f"{write(expression)}=?", teacher_trace(steps if written else [], str(steps[-1].result))
