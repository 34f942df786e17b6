"""Hostile answers and golds by a seeded grammar: deep, huge and malformed expressions, and code that must not run."""

import random
from collections.abc import Callable
from pathlib import Path

COMMANDS = (
    "frac", "sqrt", "binom", "overline", "text", "mathrm", "left", "right", "begin", "end", "boxed", "sum", "int",
)  # fmt: skip
NAMES = ("__import__", "exec", "eval", "open", "lambda", "Integral", "factorial", "Symbol", "print", "os", "sympify")


def hostile_text(random: random.Random, marker: Path) -> str:
    """One hostile text; code in it, if it were run, would create the file ``marker``."""
    kinds: list[Callable[[], str]] = [
        lambda: _tower(random),
        lambda: _nested(random),
        lambda: _soup(random),
        lambda: _matrix(random),
        lambda: _huge(random),
        lambda: _analysis(random),
        lambda: _code(random, marker),
        lambda: _unicode(random),
        lambda: "".join(random.choice(kinds[:-1])() for _ in range(random.randint(2, 4))),
    ]
    return random.choice(kinds)()


def _tower(random: random.Random) -> str:
    text = str(random.randint(2, 99))
    for _ in range(random.randint(2, 12)):
        text = f"{random.randint(2, 9)}^{{{text}}}"
    return text + random.choice(("", "!", "!!", "\\bmod 7", "\\%"))


def _nested(random: random.Random) -> str:
    depth = random.choice((10, 100, 1000, 5000))
    pairs = ("()", "{}", ("\\sqrt{", "}"), ("\\frac{1}{1+", "}"), ("\\left(", "\\right)"), "||", ("-", ""))
    opening, closing = random.choice(pairs)
    return opening * depth + random.choice(("x", "1", "")) + closing * random.choice((depth, depth - 1, 0))


def _soup(random: random.Random) -> str:
    parts = [f"\\{name}" for name in COMMANDS] + list("{}[]()&\\^_$%,;=<>|") + ["x", "12", "\\infty", "\\cup", "\\\\"]
    return "".join(random.choice(parts) for _ in range(random.randint(5, 400)))


def _matrix(random: random.Random) -> str:
    rows, columns = random.choice(((2, 2), (12, 12), (40, 40), (1, 500)))
    cell = random.choice(("1", "x^{i}", "\\frac{1}{3}", "10^{99}"))
    return "\\begin{pmatrix}" + "\\\\".join("&".join([cell] * columns) for _ in range(rows)) + "\\end{pmatrix}"


def _huge(random: random.Random) -> str:
    digits = str(random.randint(1, 9)) * random.choice((400, 4400, 20_000))
    return random.choice(("{}", "1e{}", "10_{{{}}}", "\\frac{{1}}{{{}}}", "\\binom{{{}}}{{7}}", "{}!", "0.{}")).format(
        digits
    )


def _analysis(random: random.Random) -> str:
    n = random.randint(10**3, 10**9)
    return random.choice(
        (
            f"\\sum_{{k=1}}^{{{n}}} \\frac{{1}}{{k^k}}",
            f"\\prod_{{k=1}}^{{{n}}} (1+x^k)",
            f"\\int_0^{{{n}}} e^{{-x^{{x}}}}\\sin(x^{{{n}}})\\,dx",
            f"\\lim_{{x\\to 0}} \\frac{{\\sin(x^{{{n}}})}}{{x}}",
            f"(1+x)^{{{n}}} - (x+1)^{{{n}}}",
            "\\sin(" * 60 + str(n) + ")" * 60,
            f"x^{{{n}}}+{'+'.join(f'x^{{{k}}}' for k in range(200))}=0",
        )
    )


def _code(random: random.Random, marker: Path) -> str:
    call = f"open({str(marker)!r},'w')"
    return random.choice(
        (
            call,
            f"__import__('os').system('touch {marker}')",
            f"\\text{{{call}}}",
            f"{{{{ {call} }}}}",
            f"\\operatorname{{exec}}({call!r})",
            f"(lambda: {call})()",
            f"{random.choice(NAMES)}({random.choice(NAMES)}({call}))",
            f"\\input{{{marker}}}\\write18{{touch {marker}}}",
            f"x.__class__.__mro__[1].__subclasses__()[{random.randint(0, 99)}]",
        )
    )


def _unicode(random: random.Random) -> str:
    others = (0xD7FF, 0xFEFF, 0xFFFD, 0x1D7D8, 0x0660, 0x0967, 0x221A, 0x00B2, 0x2460)
    points = [*range(0x20), *range(0x200B, 0x2070), *others]
    return "".join(chr(random.choice(points)) for _ in range(random.randint(1, 2000)))
