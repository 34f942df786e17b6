"""No wrong answer to a generated gold answer is correct, and every right one is: 0 of each."""

import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from grading.grader import Grader
from grading.verdict import Verdict

# A gold answer, right answers and wrong ones. What stands between « and » is an expression in a < b < c < d, different
# numbers between 2 and 9, in e, f and g, different ones between 11 and 59, and in the words and letters of `drawn`.
KINDS: dict[str, tuple[str, list[str], list[str]]] = {
    "line": (
        "«a»x-«b»y+«e»=0",
        ["«e»+«a»x=«b»y", "«2*a»x-«2*b»y+«2*e»=0", "y=\\frac{«a»x+«e»}{«b»}"],
        ["0", "«a»x-«b»y+«e»", "«a»x+«b»y+«e»=0", "«a»x-«b»y+«e»>0", "«a»x-«b»y=«e»"],
    ),
    "circle": (
        "(x-«a»)^2+(y+«b»)^2=«c*c»",
        ["x^2-«2*a»x+y^2+«2*b»y=«c*c-a*a-b*b»"],
        ["«c*c»", "(x+«a»)^2+(y-«b»)^2=«c*c»", "(x-«a»)^2+(y+«b»)^2=«c»"],
    ),
    "chain": (
        "«x»<«y»<«z»",
        ["«z»>«y»>«x»", "«x» \\lt «y» \\lt «z»"],
        ["«x»<«z»<«y»", "«y»<«x»<«z»", "«x»<«y»", "«x»\\le «y»<«z»"],
    ),
    "interval": (
        "[-«a»,«e»)",
        ["-«a»\\le t<«e»", "\\{x|-«a»\\leqslant x<«e»\\}", "x\\in[-«a»,«e»)", "x\\ge -«a» \\text{ and } x<«e»"],
        ["(-«a»,«e»]", "(-«a»,«e»)", "«e»", "-«a»,«e»", "[«e»,-«a»)", "-«a»<x\\le «e»", "x<«e»"],
    ),
    "union": (
        "(-\\infty,-«a»)\\cup(«b»,\\infty)",
        ["x<-«a» \\text{ or } x>«b»", "(«b»,+\\infty)\\cup(-\\infty,-«a»)", "x<-«a»\u6216x>«b»"],
        ["(«b»,\\infty)", "(-«a»,«b»)", "x<-«a» \\text{ and } x>«b»"],
    ),
    "matrix": (
        "\\begin{pmatrix}«a»&«b»\\\\«e»&«f»\\end{pmatrix}",
        [
            "\\begin{bmatrix}«a»&«b»\\\\«e»&«f»\\end{bmatrix}",
            "[[«a»,«b»],[«e»,«f»]]",
            "\\begin{bmatrix}«a»&«e»\\\\«b»&«f»\\end{bmatrix}^{\\top}",
        ],
        ["«a»", "«a»,«b»,«e»,«f»", "\\begin{pmatrix}«a»&«e»\\\\«b»&«f»\\end{pmatrix}",
         "«a*f-b*e»", "[[«e»,«f»],[«a»,«b»]]"],
    ),
    "points": (
        "\\{(«a»,«b»),(«e»,«f»)\\}",
        ["(«e»,«f»), («a»,«b»)", "(«a»,«b») \\text{ und } («e»,«f»)", "(«a»;«b»),(«e»;«f»)"],
        ["(«a»,«b»)", "(«b»,«a»),(«e»,«f»)", "(«a»,«b»,«e»,«f»)", "(«a»,«f»),(«e»,«b»)"],
    ),
    "roots": (
        "x=0, x=\\pm «a»\\sqrt{7}",
        ["0, «a»\\sqrt7, -«a»\\sqrt{7}", "\\{0,\\pm «a»\\sqrt{7}\\}", "x=0\u6216x=\\pm «a»\\sqrt{7}"],
        ["0", "\\pm «a»\\sqrt{7}", "0, «a»\\sqrt{7}", "x=0, y=\\pm «a»\\sqrt{7}"],
    ),
    "multiplicity": (
        "x=«a» \\text{ (double root)}, x=-«b»",
        ["x=«a», x=-«b»", "x=-«b»,\\ x=«a» \\text{ (multiplicity 2)}", "-«b», «a»"],
        ["x=«a», x=-«b» \\text{ (double root)}", "x=«a» \\text{ (triple root)}, x=-«b»",
         "x=«a» \\text{ (double root)}"],
    ),
    "duration": (
        "«a» \\text{ hours } «e» \\text{ minutes}",
        ["«a» h «e» min", "«a»\\text{ hrs and }«e»\\text{ min}", "«a»\u5c0f\u65f6«e»\u5206\u949f", "«60*a+e» min"],
        ["«a»", "«a» h", "«e» h «a» min", "«a».«e» \\text{ hours}", "«60*a+e» h", "«60*a+e»"],
    ),
    "clock": (
        "«a»:«e» \\text{ p.m.}",
        ["«a»:«e» PM", "\\text{«a»:«e» p.m.}", "«a+12»:«e»"],
        ["«a»", "«a»:«e» AM", "\\frac{«a»}{«e»}", "«a»:«e-1» PM"],
    ),
    "hour": ("«a»:00", ["\\text{«a»:00}", "0«a»:00"], ["«a+1»:00", "1:0", "«a»", "«a»:30", "\\infty"]),
    "date": (
        "19«e»-0«a»-«d+10»",
        ["19«e»/«a»/«d+10»", "«month» «d+10», 19«e»", "«d+10».«a».19«e»"],
        ["19«e»-«d+10»-0«a»", "«1900+e-a-d-10»", "19«e»", "19«e»-0«a»-«d+9»"],
    ),
    "code": (
        "«word»",
        ["\\text{«word»}", "«' '.join(word)»", "\\mathrm{«word»}"],
        ["«word[::-1]»", "«word[1:]»", "«word[1]+word[0]+word[2]»"],
    ),
    "joined": (
        "\\text{«b»-«a»}",
        ["«b» - «a»", "\\mbox{«b»-«a»}"],
        ["\\text{«a»-«b»}", "«b-a»", "«b-a»\\text{ days}", "\\frac{«b»}{«a»}"],
    ),
    "percent": (
        "«e»\\%",
        ["\\frac{«e»}{100}", "0.«e»", "0{,}«e»", "«e» \\text{ percent}", "«e»\uff05"],
        ["«e»00", "«e+1»\\%", "0.0«e»", "-«e»\\%", "«e»\\text{ cm}", "«e»-«e+1»\\%"],
    ),
    "money": (
        "\\$«a».«e»",
        ["«a».«e»", "«a».«e» dollars", "US\\$«a».«e»", "\\text{USD }«a».«e»", "\\textdollar «a».«e»", "«a»,«e»"],
        ["«a»", "«a».«e»\u20ac", "«a».«e»\\text{ cents}", "-\\$«a».«e»", "\\pounds «a».«e»", "«a», «e»"],
    ),
    "degrees": (
        "«e»^\\circ",
        ["«e»", "«e»\u00ba", "«e»\u5ea6", "«e» degrees", "«e»^\\circ 0'"],
        ["«e+1»^\\circ", "«e»\\%", "\\cos «e»^\\circ", "«e»^2", "«e»\\text{ radians}", "«e»^\\circ 30'"],
    ),
    "period": (
        "x=\\frac{\\pi}{«c»}+k\\pi, k\\in\\mathbb{Z}",
        ["x=\\frac{\\pi}{«c»}+n\\pi, n\\in\\mathbb{Z}", "x=\\frac{\\pi}{«c»}-k\\pi \\text{ for any integer } k"],
        [
            "x=\\frac{\\pi}{«c+1»}+k\\pi, k\\in\\mathbb{Z}",
            "x=\\frac{\\pi}{«c»}+2k\\pi, k\\in\\mathbb{Z}",
            "\\frac{\\pi}{«c»}",
        ],
    ),
    "prose": (
        "\\text{«named»}",
        ["«named»", "«named.capitalize()»", "\\mbox{«named»}", "\\emph{«named»}."],
        ["«other»", "\\text{not «named»}", "\\text{«named» or «other»}", "0", "«named[::-1]»", "«named» 3",
         "non-«named»"],
    ),
    "tiny": (
        "1-\\left(\\frac{1}{2}\\right)^{«50*e»}",
        ["1-2^{-«50*e»}", "\\frac{2^{«50*e»}-1}{2^{«50*e»}}"],
        ["1", "1-2^{-«50*e+2»}", "1+2^{-«50*e»}"],
    ),
}  # fmt: skip
WITHOUT_NUMBER = (
    "date",
    "joined",
    "code",
    "hour",
)  # a changed digit or a second value may be another spelling of these
SPELLINGS: tuple[Callable[[str], str], ...] = (
    "${}$".format, "  {} ".format, "\\boxed{{{}}}".format, "\\therefore {}".format, "{}\\ ".format,
    "{} \\checkmark".format, "{}{{}}".format, "\\displaystyle {}".format, "\\implies {} \\blacksquare".format,
    lambda text: text.replace("\\frac", "\\dfrac"),
    lambda text: re.sub(r",(?!\d\d$)", "\uff0c", text),
    lambda text: re.sub(r"([+=<>])", r" \1 ", text),
)  # fmt: skip


class Case(NamedTuple):
    """A gold answer with right and wrong answers."""

    gold: str
    right: list[str]
    wrong: list[str]


def drawn(r: random.Random) -> dict[str, object]:
    """Return the values of the names in the templates."""
    numbers = [*sorted(r.sample(range(2, 10), 4)), *r.sample(range(11, 60), 3)]
    letters = r.choice((("a", "b", "c"), ("S_1", "S_2", "S_3"), ("f(1)", "f(2)", "f(3)"), ("\\alpha", "y", "P_A")))
    named, other = r.choice((("neither player", "player one"), ("an ellipse", "a parabola"), ("isosceles", "scalene")))
    months = ("", "", "February", "March", "April", "May", "June", "July")
    values = dict(zip("abcdefg", numbers, strict=True)) | dict(zip("xyz", letters, strict=True))
    word = "".join(r.sample("BCDFGHKLMNPQRSTVWXZ", 3))
    return {**values, "word": word, "named": named, "other": other, "month": months[numbers[0]]}


def mutated(r: random.Random, gold: str) -> list[str]:
    """Return other answers: a number changed, a doubt, a denial, a second value, or a sign that is not read."""
    numbers = list(re.finditer(r"\d+", gold))
    changed = [f"{gold[: n.start()]}{int(n.group()) + step}{gold[n.end() :]}" for n in numbers for step in (1, 10)]
    doubts = [
        f"{gold} \\text{{ or }} 7777", f"{gold}, 7777", f"\\neq {gold}", f"\\text{{not }} {gold}", f"{gold} @ 3",
        f"\\approx {gold}", f"{gold} \\leftarrow", f"\\foo {gold}", f"{gold} \\text{{ unless }} n=3", f"{gold} +",
        f"{gold} 77",
    ]  # fmt: skip
    return r.sample(changed, min(4, len(changed))) + r.sample(doubts, 5)


def cases(seed: int, count: int) -> Iterator[Case]:
    r = random.Random(seed)
    for kind, templates in KINDS.items():
        for _ in range(count):
            values = drawn(r)
            written = [re.sub("«([^»]+)»", lambda part: str(eval(part[1], {}, values)), text)  # noqa: B023
                       for text in (templates[0], *templates[1], *templates[2])]  # fmt: skip
            gold, right, wrong = written[0], written[1 : len(templates[1]) + 1], written[len(templates[1]) + 1 :]
            spelled = [change(text) for text in (gold, *right) for change in r.sample(SPELLINGS, 2)]
            others = wrong + ([] if kind in WITHOUT_NUMBER else mutated(r, gold))
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
