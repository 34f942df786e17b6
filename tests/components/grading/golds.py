"""Golds of many kinds by a seeded generator, each with texts that state the same and texts that do not."""

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

AGREEING, DIFFERING = 10, 20


class Case(NamedTuple):
    """A gold answer of one kind, and answers to it."""

    kind: str
    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


Made = tuple[str, list[str], list[str]]  # gold, equal texts, different texts


def line(r: random.Random) -> Made:
    a, b, c = r.randint(2, 9), r.randint(2, 9), r.randint(11, 40)
    return (
        f"{a}x-{b}y+{c}=0",
        [f"{c}+{a}x={b}y", f"{2 * a}x-{2 * b}y+{2 * c}=0", f"y=\\frac{{{a}}}{{{b}}}x+\\frac{{{c}}}{{{b}}}"],
        ["0", f"{a}x-{b}y+{c}", f"{a}x+{b}y+{c}=0", f"{a}x-{b}y+{c}>0", f"{a}x-{b}y={c}", f"{b}y-{a}x"],
    )


def circle(r: random.Random) -> Made:
    a, b, radius = r.randint(1, 9), r.randint(1, 9), r.randint(3, 12)
    return (
        f"(x-{a})^2+(y+{b})^2={radius**2}",
        [f"{radius**2}=(y+{b})^2+(x-{a})^2", f"x^2-{2 * a}x+y^2+{2 * b}y={radius**2 - a * a - b * b}"],
        [
            str(radius**2),
            str(radius),
            f"(x+{a})^2+(y-{b})^2={radius**2}",
            f"({a},-{b})",
            f"(x-{a})^2+(y+{b})^2={radius}",
        ],
    )


def ellipse(r: random.Random) -> Made:
    a, b = r.sample(range(2, 15), 2)
    return (
        f"\\frac{{x^2}}{{{a}}}+\\frac{{y^2}}{{{b}}}=1",
        [f"{b}x^2+{a}y^2={a * b}", f"\\frac{{y^2}}{{{b}}}+\\frac{{x^2}}{{{a}}}=1"],
        [
            "1",
            f"\\frac{{x^2}}{{{b}}}+\\frac{{y^2}}{{{a}}}=1",
            f"\\frac{{x^2}}{{{a}}}-\\frac{{y^2}}{{{b}}}=1",
            f"({a},{b})",
        ],
    )


def plane(r: random.Random) -> Made:
    a, b, c, d = r.randint(2, 9), r.randint(2, 9), r.randint(10, 15), r.randint(16, 30)
    return (
        f"{a}x - {b}y + {c}z - {d} = 0",
        [f"{a}x+{c}z={b}y+{d}", f"{-a}x+{b}y-{c}z+{d}=0"],
        ["0", f"({a},-{b},{c})", f"{a}x-{b}y+{c}z+{d}=0", f"{a}x-{b}y={d}", f"{a}x+{b}y+{c}z-{d}=0"],
    )


def parabola(r: random.Random) -> Made:
    p = r.randint(2, 30)
    return (
        f"y^2={p}x",
        [f"x=\\frac{{y^2}}{{{p}}}", f"{p}x-y^2=0"],
        [f"{p}x", str(p), f"x^2={p}y", f"y={p}x", f"y^2=-{p}x"],
    )


def conditions(r: random.Random) -> Made:
    a, b = r.randint(1, 9), r.randint(11, 30)
    return (
        f"\\{{x \\mid {a} \\le x < {b}\\}}",
        [f"[{a},{b})", f"{a}\\le x<{b}", f"\\{{x: {b}>x\\geq {a}\\}}", f"x\\in[{a},{b})"],
        [
            f"({a},{b})",
            f"[{a},{b}]",
            f"\\{{{a},{b}\\}}",
            str(a),
            str(b),
            f"x<{b}",
            f"x \\ge {a}",
            f"\\{{x\\mid x<{b}\\}}",
        ],
    )


def union(r: random.Random) -> Made:
    a, b = r.randint(-20, -2), r.randint(2, 20)
    return (
        f"(-\\infty,{a})\\cup({b},\\infty)",
        [f"x<{a} \\text{{ or }} x>{b}", f"({b},\\infty)\\cup(-\\infty,{a})", f"(-\\infty,{a})\\cup({b},+\\infty)"],
        [
            f"(-\\infty,{a})",
            f"({b},\\infty)",
            f"({a},{b})",
            f"x<{a}",
            f"(-\\infty,{a}]\\cup({b},\\infty)",
            f"x<{a} \\text{{ and }} x>{b}",
        ],
    )


def interval(r: random.Random) -> Made:
    a, b = r.randint(0, 9), r.randint(11, 40)
    return (
        f"\\left[{a}, {b}\\right)",
        [f"{a}\\le t<{b}", f"[{a}.0,{b})", f"\\{{x|{a}\\leqslant x<{b}\\}}"],
        [f"({a},{b}]", f"({a},{b})", str(a), str(b), f"{a},{b}", f"[{b},{a})", f"{a}<x\\le {b}"],
    )


def quantities(r: random.Random) -> Made:
    a, b = r.randint(2, 11), r.randint(13, 59)
    return (
        f"{a} \\text{{ hours }} {b} \\text{{ minutes}}",
        [
            f"{a}\\text{{ hours and }}{b}\\text{{ minutes}}",
            f"{a}\\text{{ h }}{b}\\text{{ min}}",
            f"{a} \\mathrm{{~hours}} {b} \\mathrm{{~minutes}}",
        ],
        [
            str(a),
            str(b),
            f"{a} \\text{{ hours}}",
            f"{b} \\text{{ minutes}}",
            f"{b} \\text{{ hours }} {a} \\text{{ minutes}}",
            f"{a}.{b}",
        ],
    )


def sizes(r: random.Random) -> Made:
    a, b = r.sample(range(3, 40), 2)
    return (
        f"{a} \\mathrm{{ft}} \\times {b} \\mathrm{{ft}}",
        [f"{a}\\text{{ feet}} \\times {b}\\text{{ feet}}", f"{b} \\mathrm{{ft}} \\times {a} \\mathrm{{ft}}"],
        [
            str(a),
            str(b),
            str(a * b),
            f"{a}\\text{{ ft}}",
            f"{a * b}\\text{{ ft}}^2",
            f"{a} \\mathrm{{m}} \\times {b} \\mathrm{{m}}",
        ],
    )


def clock(r: random.Random) -> Made:
    hour, minute = r.randint(1, 11), r.randint(10, 58)
    return (
        f"{hour}:{minute} \\text{{ p.m.}}",
        [f"{hour}:{minute}\\text{{ pm}}", f"\\text{{{hour}:{minute} p.m.}}"],
        [
            str(hour),
            str(minute),
            f"{hour}:{minute} \\text{{ a.m.}}",
            f"{minute}:{hour} \\text{{ p.m.}}",
            f"\\frac{{{hour}}}{{{minute}}}",
        ],
    )


def congruence(r: random.Random) -> Made:
    m = r.randint(11, 30)
    a = r.randint(1, m - 1)
    return (
        f"x \\equiv {a} \\pmod{{{m}}}",
        [f"x\\equiv {a + m} \\pmod {{{m}}}", f"x \\equiv {a} (\\bmod {m})", f"x \\equiv {a - m} \\pmod{{{m}}}"],
        [
            str(a),
            str(m),
            f"x={a}",
            f"x \\equiv {m} \\pmod{{{a}}}",
            f"{a} \\pmod{{{m + 1}}}",
            f"y \\equiv {a} \\pmod{{{m}}}",
        ],
    )


def dots(r: random.Random) -> Made:
    a = r.randint(2, 9)
    return (
        f"{a}, {a + 1}, \\ldots, n",
        [f"{a},{a + 1},\\dots,n", f"{a}, {a + 1}, ..., n", f"{a}, {a + 1}, \\cdots, n"],
        [
            str(a),
            "n",
            f"{a},{a + 1}",
            f"{a}, {a + 1}, n",
            f"{a}, {a + 2}, \\ldots, 2n-1",
            f"{a}, {a + 1}, \\ldots, n-1",
            "\\ldots",
        ],
    )


def schools(r: random.Random) -> Made:
    a, name, other = (
        r.randint(2, 30),
        *r.choice((("arctg", "\\arctan"), ("tg", "\\tan"), ("ctg", "\\cot"), ("sh", "\\sinh"))),
    )
    return (
        f"\\operatorname{{{name}}} {a}x",
        [f"{other} ({a}x)", f"\\mathrm{{{name}}}({a} x)", f"\\{name} {a}x" if name != "sh" else f"{other} {a} x"],
        [str(a), f"{a}x", f"\\sin {a}x", f"{other} x", f"{other} ({a}y)", f"{other}^2 {a}x", f"-{other}({a}x)"],
    )


def logarithm(r: random.Random) -> Made:
    a = r.choice((2, 3, 5, 6, 7, 11, 13))
    return (
        f"\\lg {a}",
        [f"\\log_{{10}} {a}", f"\\frac{{\\ln {a}}}{{\\ln 10}}", f"\\operatorname{{lg}} {a}", f"\\lg({a})"],
        [str(a), f"\\ln {a}", f"\\lg {a + 1}", f"\\log_2 {a}", f"\\lg {a}^2", f"10^{{{a}}}", f"-\\lg {a}"],
    )


def mixed(r: random.Random) -> Made:
    whole, under = r.randint(1, 9), r.randint(3, 12)
    over = r.randint(1, under - 1)
    value = whole * under + over
    return (
        f"{whole} {over}/{under}",
        [
            f"{whole}\\frac{{{over}}}{{{under}}}",
            f"\\frac{{{value}}}{{{under}}}",
            f"{value}/{under}",
            f"{whole}+\\frac{{{over}}}{{{under}}}",
        ],
        [
            str(whole),
            f"{whole}{over}/{under}",
            f"\\frac{{{over}}}{{{under}}}",
            f"{whole * over}/{under}",
            f"{whole}, {over}/{under}",
            f"-{whole} {over}/{under}",
        ],
    )


def matrix(r: random.Random) -> Made:
    a, b, c, d = r.sample(range(1, 40), 4)
    return (
        f"\\begin{{pmatrix}}{a}&{b}\\\\{c}&{d}\\end{{pmatrix}}",
        [
            f"\\begin{{bmatrix}} {a} & {b} \\\\ {c} & {d} \\end{{bmatrix}}",
            f"\\begin{{pmatrix}}\\frac{{{2 * a}}}{{2}}&{b}\\\\{c}&{d}\\end{{pmatrix}}",
        ],
        [
            str(a),
            f"{a},{b},{c},{d}",
            f"\\begin{{pmatrix}}{a}&{c}\\\\{b}&{d}\\end{{pmatrix}}",
            f"\\begin{{pmatrix}}{a}&{b}\\end{{pmatrix}}",
            str(a * d - b * c),
        ],
    )


def vector(r: random.Random) -> Made:
    a, b, c = r.sample(range(1, 40), 3)
    column = f"\\begin{{pmatrix}}{a}\\\\-{b}\\\\{c}\\end{{pmatrix}}"
    return (
        column,
        [
            f"\\left[\\begin{{array}}{{c}}{a}\\\\-{b}\\\\{c}\\end{{array}}\\right]",
            f"\\begin{{bmatrix}}{a}\\\\ -{b}\\\\ {c}\\end{{bmatrix}}",
        ],
        [
            str(a),
            f"\\begin{{pmatrix}}{a}\\\\{b}\\\\{c}\\end{{pmatrix}}",
            f"\\begin{{pmatrix}}{a}&-{b}&{c}\\end{{pmatrix}}",
            f"\\{{{a},-{b},{c}\\}}",
            f"\\begin{{pmatrix}}{a}\\\\-{b}\\end{{pmatrix}}",
        ],
    )


def pairs(r: random.Random) -> Made:
    a, b, c, d = r.sample(range(1, 40), 4)
    return (
        f"\\{{({a},{b}),({c},{d})\\}}",
        [
            f"({a},{b}),({c},{d})",
            f"({c},{d}), ({a},{b})",
            f"\\left\\{{({c},{d}),({a},{b})\\right\\}}",
            f"({a},{b}) \\text{{ and }} ({c},{d})",
        ],
        [
            f"({a},{b})",
            f"({b},{a}),({c},{d})",
            f"\\{{{a},{b},{c},{d}\\}}",
            f"({a},{b},{c},{d})",
            f"({a},{d}),({c},{b})",
            str(a),
        ],
    )


def percent(r: random.Random) -> Made:
    a = r.randint(11, 89)
    return (
        f"{a}\\%",
        [f"{a}%", f"\\frac{{{a}}}{{100}}", f"0.{a}", f"{a}\\text{{ percent}}", f"{a} \\%", f"{a}\uff05"],
        [f"{a}00", f"{a + 1}\\%", f"{a / 10}\\%", f"0.0{a}", f"{a}0\\%", f"-{a}\\%", f"{a}\\text{{ cm}}"],
    )


def money(r: random.Random) -> Made:
    a, b = r.randint(2, 99), r.randint(11, 99)
    return (
        f"\\${a}.{b}",
        [f"{a}.{b}", f"{a}.{b}\\text{{ dollars}}", f"${a}.{b}$", f"{a}.{b} dollars"],
        [
            str(a),
            str(b),
            f"{a}.{b}\u20ac",
            f"{a}.{b}\\text{{ cents}}",
            f"{a}{b}",
            f"-\\${a}.{b}",
            f"\u00a3{a}.{b}",
            f"{a}, {b}",
        ],
    )


def degrees(r: random.Random) -> Made:
    a = r.randint(11, 179)
    return (
        f"{a}^\\circ",
        [str(a), f"{a}\u00b0", f"{a}^{{\\circ}}", f"{a}\\text{{ degrees}}", f"{a} degrees"],
        [
            f"{a + 1}^\\circ",
            f"{a}\\%",
            f"{a}\\text{{ cm}}",
            f"\\cos {a}^\\circ",
            f"-{a}^\\circ",
            f"{a}^2",
            f"{a}\\text{{ radians}}",
        ],
    )


def prose(r: random.Random) -> Made:
    gold, wrong = r.choice(
        (
            ("neither player", "player one"),
            ("an ellipse", "a parabola"),
            ("no solution", "one solution"),
            ("isosceles", "scalene"),
            ("Martina", "Martin"),
        )
    )
    return (
        f"\\text{{{gold}}}",
        [
            gold,
            gold.capitalize(),
            f"\\text{{{gold.upper()}}}",
            f"\\mbox{{{gold}}}",
            f"\\textbf{{{gold}}}",
            f"\\mathrm{{{gold}}}",
        ],
        [
            wrong,
            f"\\text{{not {gold}}}",
            f"\\text{{{gold} or {wrong}}}",
            f"\\text{{{gold} if }} n=3",
            "0",
            "x",
            gold[::-1],
            f"{gold} 3",
            gold.split()[0][:-1],
            f"{gold}, {wrong}",
            f"non-{gold}",
        ],
    )


def roots(r: random.Random) -> Made:
    a, b = r.randint(2, 20), r.choice((2, 3, 5, 6, 7))
    return (
        f"x=0, x=\\pm {a}\\sqrt{{{b}}}",
        [
            f"0, {a}\\sqrt{b}, -{a}\\sqrt{{{b}}}",
            f"\\{{0,\\pm {a}\\sqrt{{{b}}}\\}}",
            f"x=0 \\text{{ or }} x=\\pm {a}\\sqrt{{{b}}}",
        ],
        [
            "0",
            str(a),
            str(b),
            f"x=\\pm {a}\\sqrt{{{b}}}",
            f"0, {a}\\sqrt{{{b}}}",
            f"\\pm {a}\\sqrt{{{b}}}",
            f"x=0, y=\\pm {a}\\sqrt{{{b}}}",
        ],
    )


def combination(r: random.Random) -> Made:
    k = r.randint(2, 7)
    return (
        f"\\frac{{1}}{{3}} E_{{1}}+\\frac{{{k}}}{{3}} E_{{2}}",
        [f"\\frac{{E_1+{k}E_2}}{{3}}", f"\\frac{{{k}E_2}}{{3}}+\\frac{{E_1}}{{3}}"],
        [
            f"\\frac{{{k}}}{{3}}",
            "\\frac13",
            "E_1",
            f"\\frac{{1}}{{3}} E_{{2}}+\\frac{{{k}}}{{3}} E_{{1}}",
            f"\\frac{{{k + 1}}}{{3}}",
            "E_1+E_2",
        ],
    )


def tiny(r: random.Random) -> Made:
    n = r.randint(900, 3000)
    return (
        f"1-\\left(\\frac{{1}}{{2}}\\right)^{{{n}}}",
        [f"1-2^{{-{n}}}", f"1-\\frac{{1}}{{2^{{{n}}}}}", f"\\frac{{2^{{{n}}}-1}}{{2^{{{n}}}}}"],
        ["1", f"1-2^{{-{n + 2}}}", f"2^{{-{n}}}", f"1-\\frac{{1}}{{3^{{{n}}}}}", f"1+2^{{-{n}}}", "0", "\\frac12"],
    )


def upright(r: random.Random) -> Made:
    a, b = r.randint(2, 20), r.randint(2, 20)
    return (
        f"{a}\\mathrm{{e}}^{{{b}}}+{a}\\mathrm{{i}}",
        [f"{a}e^{{{b}}}+{a}i", f"{a}(e^{{{b}}}+i)", f"{a}i+{a}\\exp({b})"],
        [
            f"{a}e^{{{b}}}",
            f"{a}e^{{{b}}}-{a}i",
            f"{a}e^{{{b}}}+{a}",
            f"{a}x^{{{b}}}+{a}i",
            str(a),
            f"{a}e^{{-{b}}}+{a}i",
        ],
    )


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
