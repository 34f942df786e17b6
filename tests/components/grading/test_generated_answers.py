"""No wrong answer to a generated gold answer is correct, and every right one is: 0 of each."""

import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from grading.grader import Grader
from grading.verdict import Verdict

Made = tuple[str, list[str], list[str]]  # a gold answer, right answers, wrong ones


class Case(NamedTuple):
    """A gold answer with right and wrong answers."""

    gold: str
    right: list[str]
    wrong: list[str]


def line(r: random.Random) -> Made:
    a, b, c = r.randint(2, 9), r.randint(2, 9), r.randint(11, 40)
    right = [f"{c}+{a}x={b}y", f"{2 * a}x-{2 * b}y+{2 * c}=0", f"y=\\frac{{{a}x+{c}}}{{{b}}}"]
    return f"{a}x-{b}y+{c}=0", right, ["0", f"{a}x-{b}y+{c}", f"{a}x+{b}y+{c}=0", f"{a}x-{b}y+{c}>0", f"{a}x-{b}y={c}"]


def circle(r: random.Random) -> Made:
    a, b, q = r.randint(1, 9), r.randint(1, 9), r.randint(3, 12)
    right = [f"x^2-{2 * a}x+y^2+{2 * b}y={q * q - a * a - b * b}"]
    return f"(x-{a})^2+(y+{b})^2={q * q}", right, [str(q), f"(x+{a})^2+(y-{b})^2={q * q}", f"(x-{a})^2+(y+{b})^2={q}"]


def chain(r: random.Random) -> Made:
    one, two, three = r.choice(
        (("a", "b", "c"), ("S_1", "S_2", "S_3"), ("f(1)", "f(2)", "f(3)"), ("\\alpha", "y", "P_A"))
    )
    right = [f"{three}>{two}>{one}", f"{one} \\lt {two} \\lt {three}"]
    return (
        f"{one}<{two}<{three}",
        right,
        [f"{one}<{three}<{two}", f"{two}<{one}<{three}", f"{one}<{two}", f"{one}\\le {two}<{three}"],
    )


def interval(r: random.Random) -> Made:
    a, b = r.randint(-9, 9), r.randint(11, 40)
    right = [f"{a}\\le t<{b}", f"\\{{x|{a}\\leqslant x<{b}\\}}", f"x\\in[{a},{b})", f"x\\ge {a} \\text{{ and }} x<{b}"]
    return (
        f"[{a},{b})",
        right,
        [f"({a},{b}]", f"({a},{b})", str(b), f"{a},{b}", f"[{b},{a})", f"{a}<x\\le {b}", f"x<{b}"],
    )


def union(r: random.Random) -> Made:
    a, b = r.randint(-20, -2), r.randint(2, 20)
    right = [f"x<{a} \\text{{ or }} x>{b}", f"({b},+\\infty)\\cup(-\\infty,{a})", f"x<{a}\u6216x>{b}"]
    return f"(-\\infty,{a})\\cup({b},\\infty)", right, [f"({b},\\infty)", f"({a},{b})", f"x<{a} \\text{{ and }} x>{b}"]


def matrix(r: random.Random) -> Made:
    a, b, c, d = r.sample(range(1, 40), 4)
    right = [
        f"\\begin{{bmatrix}}{a}&{b}\\\\{c}&{d}\\end{{bmatrix}}",
        f"\\begin{{bmatrix}}{a}&{c}\\\\{b}&{d}\\end{{bmatrix}}^{{\\top}}",
    ]
    wrong = [str(a), f"{a},{b},{c},{d}", f"\\begin{{pmatrix}}{a}&{c}\\\\{b}&{d}\\end{{pmatrix}}", str(a * d - b * c)]
    return f"\\begin{{pmatrix}}{a}&{b}\\\\{c}&{d}\\end{{pmatrix}}", right, wrong


def points(r: random.Random) -> Made:
    a, b, c, d = r.sample(range(1, 40), 4)
    right = [f"({c},{d}), ({a},{b})", f"({a},{b}) \\text{{ und }} ({c},{d})", f"({a};{b}),({c};{d})"]
    return (
        f"\\{{({a},{b}),({c},{d})\\}}",
        right,
        [f"({a},{b})", f"({b},{a}),({c},{d})", f"({a},{b},{c},{d})", f"({a},{d}),({c},{b})"],
    )


def roots(r: random.Random) -> Made:
    a, b = r.randint(2, 20), r.choice((2, 3, 5, 6, 7))
    right = [
        f"0, {a}\\sqrt{b}, -{a}\\sqrt{{{b}}}",
        f"\\{{0,\\pm {a}\\sqrt{{{b}}}\\}}",
        f"x=0\u6216x=\\pm {a}\\sqrt{{{b}}}",
    ]
    return (
        f"x=0, x=\\pm {a}\\sqrt{{{b}}}",
        right,
        ["0", f"\\pm {a}\\sqrt{{{b}}}", f"0, {a}\\sqrt{{{b}}}", f"x=0, y=\\pm {a}\\sqrt{{{b}}}"],
    )


def duration(r: random.Random) -> Made:
    a, b = r.randint(2, 11), r.randint(13, 59)
    right = [f"{a} h {b} min", f"{a}\\text{{ hrs and }}{b}\\text{{ min}}", f"{a}\u5c0f\u65f6{b}\u5206\u949f"]
    return (
        f"{a} \\text{{ hours }} {b} \\text{{ minutes}}",
        right,
        [str(a), f"{a} h", f"{b} h {a} min", f"{a}.{b} \\text{{ hours}}"],
    )


def clock(r: random.Random) -> Made:
    hour, minute = r.randint(1, 11), r.randint(10, 58)
    right = [f"{hour}:{minute} PM", f"\\text{{{hour}:{minute} p.m.}}", f"{hour + 12}:{minute}"]
    return (
        f"{hour}:{minute} \\text{{ p.m.}}",
        right,
        [str(hour), f"{hour}:{minute} AM", f"\\frac{{{hour}}}{{{minute}}}", f"{hour}:{minute + 1} PM"],
    )


def hour(r: random.Random) -> Made:
    h = r.randint(2, 11)
    return (
        f"{h}:00",
        [f"\\text{{{h}:00}}", f"0{h}:00" if h < 10 else f"{h}{{:}}00"],
        [f"{h + 1}:00", "1:0", str(h), f"{h}:30", "\\infty"],
    )


def date(r: random.Random) -> Made:
    year, month, day = r.randint(1900, 2030), r.randint(1, 5), r.randint(6, 12)
    right = [
        f"{year}/{month}/{day}",
        f"{('January', 'February', 'March', 'April', 'May')[month - 1]} {day}, {year}",
        f"{day}.{month}.{year}",
    ]
    return (
        f"{year}-0{month}-{day:02}",
        right,
        [f"{year}-{day:02}-0{month}", str(year - month - day), str(year), f"{year}-0{month}-{day + 1:02}"],
    )


def code(r: random.Random) -> Made:
    letters = "".join(r.sample("BCDFGHKLMNPQRSTVWXZ", 3))
    return (
        letters,
        [f"\\text{{{letters}}}", " ".join(letters), f"\\mathrm{{{letters}}}"],
        [letters[::-1], letters[1:], letters[1] + letters[0] + letters[2]],
    )


def joined(r: random.Random) -> Made:
    a, b = r.sample(range(2, 9), 2)
    gold = r.choice((f"\\text{{{a}-{b}}}", f"{a}-{b} \\text{{ days}}", f"{a}-{b}-{a + b}", f"0{a}-{b}"))
    other = gold.replace(str(a), "#").replace(str(b), str(a)).replace("#", str(b))
    return (
        gold,
        [gold.replace("-", " - "), gold.replace("\\text", "\\mbox")],
        [other, str(a - b), f"{a - b}\\text{{ days}}"],
    )


def percent(r: random.Random) -> Made:
    a = r.randint(11, 89)
    right = [f"\\frac{{{a}}}{{100}}", f"0.{a}", f"0{{,}}{a}", f"{a} \\text{{ percent}}", f"{a}\uff05"]
    return f"{a}\\%", right, [f"{a}00", f"{a + 1}\\%", f"0.0{a}", f"-{a}\\%", f"{a}\\text{{ cm}}", f"{a}-{a + 1}\\%"]


def money(r: random.Random) -> Made:
    a, b = r.randint(2, 99), r.randint(11, 99)
    right = [f"{a}.{b}", f"{a}.{b} dollars", f"US\\${a}.{b}", f"\\text{{USD }}{a}.{b}", f"\\textdollar {a}.{b}"]
    return (
        f"\\${a}.{b}",
        right,
        [str(a), f"{a}.{b}\u20ac", f"{a}.{b}\\text{{ cents}}", f"-\\${a}.{b}", f"\\pounds {a}.{b}", f"{a}, {b}"],
    )


def degrees(r: random.Random) -> Made:
    a = r.randint(11, 179)
    right = [str(a), f"{a}\u00ba", f"{a}\u5ea6", f"{a} degrees", f"{a}^\\circ 0'"]
    return (
        f"{a}^\\circ",
        right,
        [f"{a + 1}^\\circ", f"{a}\\%", f"\\cos {a}^\\circ", f"{a}^2", f"{a}\\text{{ radians}}", f"{a}^\\circ 30'"],
    )


def period(r: random.Random) -> Made:
    a = r.randint(3, 9)
    right = [
        f"x=\\frac{{\\pi}}{{{a}}}+n\\pi, n\\in\\mathbb{{Z}}",
        f"x=\\frac{{\\pi}}{{{a}}}-k\\pi \\text{{ for any integer }} k",
    ]
    wrong = [
        f"x=\\frac{{\\pi}}{{{a + 1}}}+k\\pi, k\\in\\mathbb{{Z}}",
        f"x=\\frac{{\\pi}}{{{a}}}+2k\\pi, k\\in\\mathbb{{Z}}",
        f"\\frac{{\\pi}}{{{a}}}",
    ]
    return f"x=\\frac{{\\pi}}{{{a}}}+k\\pi, k\\in\\mathbb{{Z}}", right, wrong


def prose(r: random.Random) -> Made:
    gold, wrong = r.choice((("neither player", "player one"), ("an ellipse", "a parabola"), ("isosceles", "scalene")))
    others = [
        wrong,
        f"\\text{{not {gold}}}",
        f"\\text{{{gold} or {wrong}}}",
        "0",
        gold[::-1],
        f"{gold} 3",
        f"non-{gold}",
    ]
    return f"\\text{{{gold}}}", [gold, gold.capitalize(), f"\\mbox{{{gold}}}", f"\\emph{{{gold}}}."], others


def tiny(r: random.Random) -> Made:
    n = r.randint(900, 3000)
    return (
        f"1-\\left(\\frac{{1}}{{2}}\\right)^{{{n}}}",
        [f"1-2^{{-{n}}}", f"\\frac{{2^{{{n}}}-1}}{{2^{{{n}}}}}"],
        ["1", f"1-2^{{-{n + 2}}}", f"1+2^{{-{n}}}"],
    )


KINDS = (
    line, circle, chain, interval, union, matrix, points, roots, duration, clock, hour, date, code, joined, percent,
    money, degrees, period, prose, tiny,
)  # fmt: skip
WITHOUT_NUMBER = (date, joined, code, hour)  # a changed digit or a second value may be another spelling of these
SPELLINGS: tuple[Callable[[str], str], ...] = (
    "${}$".format, "  {} ".format, "\\boxed{{{}}}".format, "\\therefore {}".format, "{}\\ ".format,
    "{} \\checkmark".format, "{}{{}}".format, "\\displaystyle {}".format, "\\implies {} \\blacksquare".format,
    lambda text: text.replace("\\frac", "\\dfrac"),
    lambda text: text.replace(",", "\uff0c"),
    lambda text: re.sub(r"([+=<>])", r" \1 ", text),
)  # fmt: skip


def mutated(r: random.Random, gold: str) -> list[str]:
    """Return other answers: a number changed, a doubt, a denial, a second value, or a sign that is not read."""
    numbers = list(re.finditer(r"\d+", gold))
    changed = [f"{gold[: n.start()]}{int(n.group()) + step}{gold[n.end() :]}" for n in numbers for step in (1, 10)]
    doubts = [
        f"{gold} \\text{{ or }} 7777", f"{gold}, 7777", f"\\neq {gold}", f"\\text{{not }} {gold}", f"{gold} @ 3",
        f"\\approx {gold}", f"{gold} \\leftarrow", f"\\foo {gold}", f"{gold} \\text{{ unless }} n=3", f"{gold} +",
    ]  # fmt: skip
    return r.sample(changed, min(4, len(changed))) + r.sample(doubts, 5)


def cases(seed: int, count: int) -> Iterator[Case]:
    r = random.Random(seed)
    for make in KINDS:
        for _ in range(count):
            gold, right, wrong = make(r)
            spelled = [change(text) for text in (gold, *right) for change in r.sample(SPELLINGS, 2)]
            others = wrong + ([] if make in WITHOUT_NUMBER else mutated(r, gold))
            yield Case(gold, [*right, *spelled], [text for text in others if text not in (gold, *right)])


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 2), pytest.param(2026, 40, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_no_wrong_answer_is_correct_and_every_right_one_is(seed: int, count: int) -> None:
    with Grader(workers=2, limit_s=20.0) as grader, ThreadPoolExecutor(2) as threads:

        def correct(pair: tuple[str, str]) -> bool:
            return grader.verify(*pair) is Verdict.CORRECT

        generated = list(cases(seed, count))
        wrong = [(answer, case.gold) for case in generated for answer in case.wrong]
        right = [(answer, case.gold) for case in generated for answer in case.right]
        assert not [pair for pair, verdict in zip(wrong, threads.map(correct, wrong), strict=True) if verdict]
        assert not [pair for pair, verdict in zip(right, threads.map(correct, right), strict=True) if not verdict]
