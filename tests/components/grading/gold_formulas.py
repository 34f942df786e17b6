"""Golds that are formulas: curves, sets, intervals, vectors, matrices; each with equal and different texts."""

import random

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


def logarithm(r: random.Random) -> Made:
    a = r.choice((2, 3, 5, 6, 7, 11, 13))
    return (
        f"\\lg {a}",
        [f"\\log_{{10}} {a}", f"\\frac{{\\ln {a}}}{{\\ln 10}}", f"\\operatorname{{lg}} {a}", f"\\lg({a})"],
        [str(a), f"\\ln {a}", f"\\lg {a + 1}", f"\\log_2 {a}", f"\\lg {a}^2", f"10^{{{a}}}", f"-\\lg {a}"],
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
