"""Golds of many kinds by a seeded generator, each with texts that state the same and texts that do not."""

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gold_formulas import (
    Made,
    circle,
    combination,
    conditions,
    ellipse,
    interval,
    line,
    logarithm,
    matrix,
    pairs,
    parabola,
    plane,
    roots,
    union,
    upright,
    vector,
)
from gold_wordings import (
    clock,
    congruence,
    degrees,
    dots,
    mixed,
    money,
    percent,
    prose,
    quantities,
    schools,
    sizes,
    tiny,
)

AGREEING, DIFFERING = 10, 20


class Case(NamedTuple):
    """A gold answer of one kind, and answers to it."""

    kind: str
    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


KINDS: tuple[Callable[[random.Random], Made], ...] = (
    line, circle, ellipse, plane, parabola, conditions, union, interval, quantities, sizes, clock, congruence, dots,
    schools, logarithm, mixed, matrix, vector, pairs, percent, money, degrees, prose, roots, combination, tiny, upright,
)  # fmt: skip


def cases(seed: int, golds: int) -> Iterator[Case]:
    """``golds`` cases of each kind, each with 10 right and 20 wrong answers."""
    generator = random.Random(seed)
    for make in KINDS:
        for _ in range(golds):
            gold, equal, different = make(generator)
            right = [*equal, *(_respelled(generator, text) for _ in range(9) for text in (gold, *equal))]
            wrong = [*different, *_mutated(generator, gold)]
            yield Case(
                make.__name__,
                gold,
                tuple(list(dict.fromkeys(right))[:AGREEING]),
                tuple(text for text in dict.fromkeys(wrong) if text not in (gold, *equal))[:DIFFERING],
            )


def _respelled(generator: random.Random, text: str) -> str:
    """The same answer in other typography."""
    changes: tuple[Callable[[str], str], ...] = (
        lambda text: f"${text}$",
        lambda text: f"  {text} ",
        lambda text: f"${text}$.",
        lambda text: f"\\boxed{{{text}}}",
        lambda text: text.replace("\\frac", "\\dfrac"),
        lambda text: (
            text.replace("(", "\\left(").replace(")", "\\right)") if "[" not in text and "mod" not in text else text
        ),
        lambda text: text.replace("-", "\u2212") if "\\text" not in text else text,
        lambda text: text.replace(",", ",\\,"),
        lambda text: re.sub(r"([+=<>])", r" \1 ", text),
        lambda text: text.replace(",", "\uff0c"),
    )
    for change in generator.sample(changes, 2):
        text = change(text)
    return text


def _mutated(generator: random.Random, gold: str) -> list[str]:
    """Other answers: a number changed, digits parted, a sign changed, a doubt or a denial, text behind it."""
    numbers = list(re.finditer(r"\d+", gold))
    changed = [
        f"{gold[: number.start()]}{int(number.group()) + step}{gold[number.end() :]}"
        for number in numbers
        for step in (1, 3, 10)
    ]
    parted = [
        f"{gold[: number.start() + 1]} {gold[number.start() + 1 :]}" for number in numbers if len(number.group()) > 1
    ]
    doubts = [
        f"{gold} \\text{{ or possibly }} 77",
        f"{gold} \\text{{ or }} 77",
        f"{gold}, 77",
        f"\\neq {gold}",
        f"\\text{{not }} {gold}",
        f"{gold} @ 3",
        f"{gold} \\text{{ (or perhaps 77)}}",
        f"\\text{{no solution for }} {gold}",
        f"\\approx {gold}",
        f"{gold} \\leftarrow",
        f"\\foo {gold}",
        f"{gold} \\text{{ unless }} n=3",
        f"? {gold}",
        f"{gold} +",
        f"{gold} 77",
        f"77, {gold}",
    ]
    generator.shuffle(changed)
    generator.shuffle(doubts)
    mixture = [text for group in zip(changed, doubts, strict=False) for text in group]
    return [*parted, *mixture, *doubts, *changed]
