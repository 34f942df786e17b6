"""Pairs of answers: 300 of the same value and 300 of another, of every kind that benchmarks have."""

from itertools import product

NAMED_EQUAL = r"""
['17'] ~~ 17
["\\frac{3}{4}"] ~~ \frac34
[29] ~~ 29
\begin{pmatrix}-1&0\\0&-1\end{pmatrix} ~~ \begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}
\begin{pmatrix}-\frac13\\\frac23\end{pmatrix} ~~ \begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}
\begin{bmatrix}1&2\\3&4\end{bmatrix} ~~ \begin{pmatrix}1&2\\3&4\end{pmatrix}
\begin{pmatrix}0.5&1\end{pmatrix} ~~ \begin{pmatrix}\frac12&1\end{pmatrix}
\frac{37}{4}m ~~ \frac{37m}{4}
b = m ~~ m
f(x)=x^2 ~~ x^2
f(x)=2x+1 ~~ f(x)=1+2x
x=5 ~~ 5
y=2x+1 ~~ 2x+1
\sinh x ~~ \frac{e^x-e^{-x}}{2}
\cosh(2x) ~~ \frac{e^{2x}+e^{-2x}}{2}
\tanh x ~~ \frac{e^x-e^{-x}}{e^x+e^{-x}}
\tan x ~~ \frac{\sin x}{\cos x}
\sin^2 x ~~ (\sin x)^2
\log_{10} x ~~ \log x
\ln(x^2+1) ~~ \ln(1+x^2)
i ~~ \sqrt{-1}
1+\sqrt{-4} ~~ 1+2i
(1+i)^2 ~~ 2i
\frac{1+i}{2} ~~ \frac12+\frac{i}{2}
e^{i\pi} ~~ -1
2i+1 ~~ 1+2i
\emptyset ~~ \varnothing
\{\} ~~ \emptyset
5 dollars ~~ 5
5\text{ dollars} ~~ 5 dollars
5 meters ~~ 5 m
5\text{ m} ~~ 5 m
5\text{ cm}^2 ~~ 5 cm^2
90^\circ ~~ 90
x\neq 3 ~~ (-\infty,3)\cup(3,\infty)
x>3 ~~ (3,\infty)
x\le 3 ~~ (-\infty,3]
x\ge 2 ~~ 2\le x
x>3 ~~ 3<x
1<x<2 ~~ (1,2)
-1\le x\le 1 ~~ [-1,1]
1<x\leqslant 2 ~~ (1,2]
x\in[1,2] ~~ [1,2]
\mathbb{R}\setminus\{3\} ~~ (-\infty,3)\cup(3,\infty)
[0,1]\cup[2,3] ~~ [2,3]\cup[0,1]
\{1,2,3\} ~~ \{3,2,1\}
\lbrace 1,2\rbrace ~~ \{1,2\}
1,2 ~~ (1,2)
x=1,x=2 ~~ 1,2
\pm 2 ~~ 2,-2
10_2 ~~ 2
2516_8 ~~ 2516
0.\overline{3} ~~ \frac13
0.1\overline{6} ~~ \frac16
50\% ~~ \frac12
1.5e3 ~~ 1500
2.5\times10^{-3} ~~ 0.0025
1{,}000 ~~ 1000
\binom{5}{2} ~~ 10
\binom{n}{2} ~~ \frac{n(n-1)}{2}
2\sqrt{3} ~~ \sqrt{12}
2\pi r ~~ 2r\pi
1\frac12 ~~ \frac32
B. 12 ~~ 12
2^{2024}-1 ~~ 4^{1012}-1
2024! ~~ 2024 \cdot 2023!
n! ~~ n(n-1)!
\frac{(2n)!}{n!n!} ~~ \binom{2n}{n}
x\sqrt x ~~ \sqrt{x^3}
\sqrt{ab} ~~ \sqrt a\sqrt b
\ln x+C ~~ \ln|x|+C
2\ln(x-30) ~~ \ln((x-30)^2)
\max(x,50) ~~ \frac{x+50+|x-50|}{2}
45\degree ~~ 45^\circ
12\text{ gm} ~~ 12
12\text{ MJ} ~~ 12
9\text{ meters per second squared} ~~ 9
9\text{ meters per second squared} ~~ 9\,\mathrm{m\cdot s^{-2}}
4\text{ J/(kg K)} ~~ 4\,\mathrm{J\,kg^{-1}\,K^{-1}}
8\text{ yards squared} ~~ 8\text{ yd}^2
40\text{ miles per hour} ~~ 40\text{ mph}
6\text{ mL} ~~ 6\text{ cubic centimeters}
35\text{ degrees Fahrenheit} ~~ 35^\circ\text{F}
47\,\Omega ~~ 47\text{ ohms}
7{:}45\text{ p.m.} ~~ 7:45\text{ PM}
7\text{ solutions} ~~ 7
\lfloor x+1\rfloor ~~ \lfloor x\rfloor+1
3 \pmod{7} ~~ 10 \pmod{7}
x \equiv 3 \pmod{7} ~~ x \equiv 10 \pmod 7
"""

NAMED_DIFFERENT = r"""
5 ~~ 5\text{/7}
5 ~~ 5\text{z}
5 ~~ 5\text{ thousandths}
5 ~~ 5 cubed
5 ~~ 5\text{ sixth}
5 ~~ 5\text{ theta}
5 ~~ 5\text{ trillions}
5 ~~ 5\text{ versus 9}
5 ~~ 5\text{ base 9}
9 ~~ 2+7\text{y}
\lfloor n/3\rfloor ~~ \lfloor n/4\rfloor
\lceil n/2\rceil ~~ \lceil n/9\rceil
7-x ~~ |x-7|
x+40 ~~ |x+40|
\max(x,90) ~~ 90
\min(x,30) ~~ x
-1 ~~ \frac{|x-12|}{x-12}
\ln|x| ~~ \ln(-x)
2^{2024}-1 ~~ 2^{2023}-1
n! ~~ (n-2)!
x=3, y=4 ~~ 4,3
3 \pmod{7} ~~ 4 \pmod{7}
['17'] ~~ 7
['3', '4'] ~~ 3
["3", "4"] ~~ 4
[2,5] ~~ 2
\begin{pmatrix}1&2\\3&4\end{pmatrix} ~~ \begin{pmatrix}1&2\\3&5\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} ~~ \begin{pmatrix}1&3\\2&4\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} ~~ \begin{pmatrix}1&2\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} ~~ \begin{pmatrix}2\\1\end{pmatrix}
\frac{37}{4}m ~~ \frac{37}{4}n
\frac{37}{4}m ~~ \frac{35m}{4}
3t ~~ 3s
\frac12t ~~ \frac12s
3x ~~ 3
2^x ~~ 2
-x ~~ x
t ~~ 3t
b = m ~~ n
x=5 ~~ y=5
y=x ~~ y
y=2x ~~ y=3x
f(x)=x^2 ~~ x^3
\sinh x ~~ \cosh x
\sinh x ~~ \frac{e^x+e^{-x}}{2}
\sin x ~~ \sin(2x)
\sin x ~~ \cos x
\ln x ~~ \log x
e^x ~~ e^{-x}
x^2 ~~ 2^x
i ~~ 1
i ~~ -i
3i ~~ 3
1+2i ~~ 1-2i
1+2i ~~ 2+i
\emptyset ~~ 0
\emptyset ~~ \{0\}
5 dollars ~~ 6
5 dollars ~~ 5 cents
5 m ~~ 5 km
5 m ~~ 5 cm
5\text{ cm}^2 ~~ 5\text{ cm}^3
5\,\mathrm{m\cdot s^{-1}} ~~ 5\text{ m/s}^2
5\text{ J/kg} ~~ 5\text{ J kg}
5\text{ degrees Celsius} ~~ 5^\circ\text{F}
5\text{ x squared} ~~ 5
7{:}45\text{ p.m.} ~~ 7:45\text{ AM}
x\neq 3 ~~ x\neq 2
x\neq 3 ~~ (-\infty,3)\cup[3,\infty)
x\neq 3 ~~ x=3
x\ge 3 ~~ x>3
x>3 ~~ x<3
(3,\infty) ~~ [3,\infty)
1<x<2 ~~ 1<x<3
1<x<2 ~~ [1,2]
\{1,2\} ~~ [1,2]
\{1,2\} ~~ (1,2)
\{1,2\} ~~ \{1,2,3\}
(1,2,3) ~~ (1,2)
(1,2) ~~ (2,1)
2,1 ~~ (1,2)
[1,2] ~~ [1,3]
[1,2] ~~ (1,2)
10 ~~ 10_2
10_3 ~~ 10_2
0.\overline{3} ~~ 0.3
0.\overline{3} ~~ 0.33
50\% ~~ 0.05
1.5\times10^3 ~~ 1.5\times10^4
2.5e-3 ~~ 2.5e3
\binom{5}{2} ~~ \binom{5}{1}
2\sqrt3 ~~ \sqrt{13}
1\frac12 ~~ \frac12
a+b ~~ a-b
B. 12 ~~ B. 13
"""


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(first, second) for line in text.strip().splitlines() for first, _, second in [line.partition(" ~~ ")]]


def _matrix(rows: list[list[str]], blank: str, kind: str = "pmatrix") -> str:
    return f"\\begin{{{kind}}}" + f"\\\\{blank}".join(f"{blank}&{blank}".join(row) for row in rows) + f"\\end{{{kind}}}"


def _generated() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs of numbers, matrices, tuples, sets, intervals, inequalities, units, functions and complex numbers."""
    equal: list[tuple[str, str]] = []
    different: list[tuple[str, str]] = []
    for a, b in product((2, 3, 5), (7, 8, 9, 11)):
        same = [
            (f"\\frac{{{a}}}{{{b}}}", f"{a}/{b}"),
            (f"({a},{b})", f"\\left({a},\\,{b}\\right)"),
            (f"\\{{{a},{b}\\}}", f"\\left\\{{{b},{a}\\right\\}}"),
            (f"[{a},{b})", f"{a}\\le x<{b}"),
            (f"({a},{b}]", f"{a}<t\\leq {b}"),
            (f"x>{a * b}", f"({a * b},\\infty)"),
            (f"{a}.{b}\\times10^{{{a}}}", f"{a}.{b}e{a}"),
            (f"{a}{b}\\%", f"0.{a}{b}" if b < 10 else f"\\frac{{{a}{b}}}{{100}}"),
            (f"{a}\\text{{ km}}", f"{a} km"),
            (f"{a}x+{b}", f"{b}+{a}x"),
            (f"f(x)={a}x^{{{b}}}", f"{a}x^{{{b}}}"),
            (f"(x+{a})(x-{b})", f"x^2-{b - a}x-{a * b}"),
            (f"{a}+{b}i", f"{b}i+{a}"),
            (f"({a}+i)({a}-i)", str(a * a + 1)),
            (f"\\sqrt{{{a * a * b}}}", f"{a}\\sqrt{{{b}}}"),
            (
                f"\\begin{{pmatrix}}{a}&{b}\\\\0&1\\end{{pmatrix}}",
                _matrix([[str(a), str(b)], ["0", "1"]], " ", "bmatrix"),
            ),
            (_matrix([[f"\\frac{{1}}{{{a}}}"], [f"-{b}"]], ""), _matrix([[f"\\dfrac{{1}}{{{a}}}"], [f"-{b}"]], " ")),
            (f"x\\neq {b}", f"(-\\infty,{b})\\cup({b},\\infty)"),
            (f"\\frac{{{a}x}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}x"),
            (f"e^{{{a}x}}", f"\\exp({a}x)"),
        ]
        other = [
            (f"\\frac{{{a}}}{{{b}}}", f"{b}/{a}"),
            (f"({a},{b})", f"({b},{a})"),
            (f"\\{{{a},{b}\\}}", f"\\{{{a},{b + 1}\\}}"),
            (f"[{a},{b})", f"{a}<x<{b}"),
            (f"({a},{b}]", f"[{a},{b}]"),
            (f"x>{a * b}", f"(-\\infty,{a * b})"),
            (f"{a}.{b}\\times10^{{{a}}}", f"{a}.{b}e{a + 1}"),
            (f"{a}{b}\\%", f"{b}{a}\\%"),
            (f"{a}\\text{{ km}}", f"{a}\\text{{ m}}"),
            (f"{a}x+{b}", f"{b}x+{a}"),
            (f"f(x)={a}x^{{{b}}}", f"{b}x^{{{a}}}"),
            (f"(x+{a})(x-{b})", f"x^2+{b - a}x-{a * b}"),
            (f"{a}+{b}i", f"{a}-{b}i"),
            (f"({a}+i)({a}-i)", str(a * a - 1)),
            (f"\\sqrt{{{a * a * b}}}", f"{b}\\sqrt{{{a}}}"),
            (_matrix([[str(a), str(b)], ["0", "1"]], ""), _matrix([[str(a), "0"], [str(b), "1"]], " ")),
            (_matrix([[f"\\frac{{1}}{{{a}}}"], [f"-{b}"]], ""), _matrix([[f"\\frac{{1}}{{{a}}}"], [str(b)]], "")),
            (f"x\\neq {b}", f"(-\\infty,{b})\\cup({a * b},\\infty)"),
            (f"\\frac{{{a}x}}{{{b}}}", f"\\frac{{{a}}}{{{b}x}}"),
            (f"e^{{{a}x}}", f"e^{{-{a}x}}"),
        ]
        equal += same
        different += other
    return equal, different


EQUAL, DIFFERENT = (
    [*_pairs(named), *generated] for named, generated in zip((NAMED_EQUAL, NAMED_DIFFERENT), _generated(), strict=True)
)
