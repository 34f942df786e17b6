"""Golds with units, words or a notation of their own; each with equal and different texts."""

import random

from gold_formulas import Made


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


def tiny(r: random.Random) -> Made:
    n = r.randint(900, 3000)
    return (
        f"1-\\left(\\frac{{1}}{{2}}\\right)^{{{n}}}",
        [f"1-2^{{-{n}}}", f"1-\\frac{{1}}{{2^{{{n}}}}}", f"\\frac{{2^{{{n}}}-1}}{{2^{{{n}}}}}"],
        ["1", f"1-2^{{-{n + 2}}}", f"2^{{-{n}}}", f"1-\\frac{{1}}{{3^{{{n}}}}}", f"1+2^{{-{n}}}", "0", "\\frac12"],
    )
