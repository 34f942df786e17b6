"""Answers are read to their end, and compared exactly: no fragment, no rounding, no other reading."""

import doctest

import pytest

from grading.answers.choices import extract_choice
from grading.expressions import answer_tokens, signs, unit_names, units
from grading.expressions.reading import function_names
from grading.grader import Grader
from grading.verdict import Verdict


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


def test_the_examples_in_the_docstrings_are_true():
    for module in (signs, answer_tokens, unit_names, units, function_names):
        result = doctest.testmod(module)
        assert result.attempted and result.failed == 0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        # an equation is no value, unless a name is on its left
        ("2x+7y-9=0", "0"),
        ("xy=12", "12"),
        ("x^2-y^2=8", "8"),
        ("\\frac{dy}{dx}=3y", "3y"),
        ("y=3x", "z=3x"),
        ("y'+4y=1", "y+4y=1"),
        # a fragment is not the whole
        ("\\{t \\mid t \\ge 11\\}", "11"),
        ("\\frac{2}{5} m_{1}+\\frac{3}{5} m_{2}", "\\frac{3}{5}"),
        ("6 \\mathrm{~ft}, 9 \\mathrm{~in}", "6"),
        ("5 \\text{ kg } 40 \\text{ g}", "5"),
        ("2, 4, \\ldots, 2n", "4"),
        ("\\operatorname{foo} 7", "7"),
        ("n \\equiv 5 \\pmod{9}", "5"),
        ("\\text{Only for } k=8", "8"),
        ("(-\\infty,2)\\cup\\{7\\}", "7"),
        # doubts, denials and other signs in the answer
        ("8", "\\{y \\mid y < 8\\}"),
        ("8", "\\ne 8"),
        ("8", "\\geq 8"),
        ("8", "3 \\text{ (perhaps } 8)"),
        ("8", "7 \\# 8"),
        ("8", "8 \\text{ or more}"),
        ("8", "8 \\text{ million}"),
        ("a", "\\leftarrow a"),
        ("10", "10_2"),
        ("0.0011", "0.0011_2"),
        ("8", "2^{3}_{1}"),
        ("I_1", "I_2"),
        ("A^T", "A"),
        ("\\gamma", "\\Gamma"),
        ("x", "X"),
        ("2(3)", "5"),
        ("\\frac12 \\cdot \\frac23", "1\\frac12"),
        ("5m", "5"),
        ("QRS=TUV", "TUV"),
        ("\\text{AC} = \\text{AVC}", "AVC"),
        ("5:1", "5"),
        ("C_1c_1", "c_1^2"),
        # blanks between digits
        ("7/3", "2 7/3"),
        ("23/4", "2 3/4"),
        ("246", "2 4 6"),
        ("57", "5\\;7"),
        ("2 3/4", "2"),
        # tiny values
        ("\\frac{1}{800!}", "\\frac{1}{801!}"),
        ("3^{-1500}", "3^{-1501}"),
        ("e^{-700}", "e^{-701}"),
        ("2-10^{-40}", "2-10^{-41}"),
        ("\\sqrt{2}+10^{-50}", "\\sqrt{2}"),
        ("0.1234567", "0.1234568"),
        ("\\{0, 10^{-30}\\}", "\\{0, 10^{-31}\\}"),
        # relations between symbols, signs and integers at which formulas agree
        ("p+r", "2q"),
        ("\\frac{s+u}{t}", "2"),
        ("2^{k+m}", "4^{l}"),
        ("|uv|", "uv"),
        ("|ps|+q", "ps+q"),
        ("|p+q|", "|p|+|q|"),
        ("\\sqrt{u^2 v^2}", "uv"),
        ("|4t-1|+|4t|", "|8t-1|"),
        ("\\lceil n/5 \\rceil", "\\lfloor n/5 \\rfloor + 1"),
        ("\\lfloor t \\rfloor + \\lfloor -t \\rfloor", "-1"),
        ("(-1)^n", "(-1)^{n+1}"),
        # junctions, nested sets, ratios with 0, and what is undefined
        ("3/0", "4/0"),
        ("r\\lor s", "r\\land s"),
        ("u=3\\text{ or }v=4", "u=3\\text{ and }v=4"),
        ("\\{\\{7\\}\\}", "\\{7\\}"),
        ("\\{2,\\{5\\}\\}", "\\{\\{2\\},5\\}"),
        ("0:3:4", "0:4:3"),
        ("2:5", "0:0"),
        # repeating decimals, letters that are no unit or word, and the case of letters
        ("0.\\bar{7}", "0"),
        ("0.\\dot 4", "0.\\dot 5"),
        ("7 rst", "7"),
        ("\\frac{1}{3} abd", "\\frac13"),
        ("PVt", "pvt"),
        ("Bcd", "bcd"),
        ("AcE", "aCe"),
        ("b+3rd", "b+3"),
        ("TTH", "HTT"),
        ("9C4", "4C9"),
        ("4–9", "-5"),
        # units with powers, prefixes and words that are none
        ("7\\text{ s}^2", "7s"),
        ("4\\text{ kg}^{-1}", "4kg"),
        ("3\\text{ Mcal}", "3\\text{ mcal}"),
        ("8\\text{ Mmol}", "8\\text{ mmol}"),
        ("2\\text{ ms}", "2\\text{ m s}"),
        ("7\\text{ impossible}", "7"),
        ("110\\text{ octal}", "110"),
        # digits of a base, and the names and order of values
        ("7B4A_{13}", "4B7A_{13}"),
        ("y=4, x=3", "(4,3)"),
        ("(b,a)=(5,6)", "(5,6)"),
        ("\\overline{w}=2-i", "2-i"),
        ("\\text{wrong}=8", "8"),
        ("t^{-1}=6", "6"),
        # divisors and roots
        ("\\gcd(m,4)", "1"),
        ("\\sqrt[3]{-64}", "4"),
        ("(-27)^{1/3}", "\\frac{3}{2}+\\frac{3\\sqrt{3}}{2}i"),
        ("n \\bmod 9 = 5", "n \\equiv 4 \\pmod 9"),
        ("2\\text{ h}", "120\\text{ min}"),
        # shares, alternatives, and parts of an answer
        ("\\frac58", "\\frac58\\%"),
        ("a=4, b=9", "4 \\text{ or } 9"),
        ("(4,9)", "4 \\text{ or } 9"),
        ("(a) 4 (b) 9", "(a) 9 (b) 4"),
        ("(4,9)", "x\\in\\{4,9\\}"),
        ("(4,9)", "x=4 \\text{ or } x=9"),
        # words, ranges, units and angles
        ("6", "twenty-six"),
        ("4", "four dozen"),
        ("\\frac12", "one half"),
        ("\\frac47", "4 to 7"),
        ("6\\,\\mu\\text{m}", "6\\text{ mm}"),
        ("8\\ \\text{k}\\Omega", "8\\ \\Omega"),
        ("7 M_\\odot", "7 R_\\odot"),
        ("2\\frac{\\text{m}}{\\text{s}}", "2\\frac{\\text{m}}{\\text{s}^2}"),
        ("45^\\circ", "\\frac{\\pi}{3}"),
        ("45", "\\frac{\\pi}{4}"),
        # conditions, parameters, constants, vectors and pieces
        ("(4,9)", "x<4, x>9"),
        ("(4,\\infty)", "x>4, x>9"),
        ("(4,9)", "x>4, y<9"),
        ("(1,3)\\cup(5,8)", "(1,3),(5,8)"),
        ("x=3k\\pi, k\\in\\mathbb{Z}", "x=3n\\pi, n\\in\\mathbb{N}"),
        ("x=3k\\pi, k\\in\\mathbb{Z}", "x=n\\pi, n\\in\\mathbb{Z}"),
        ("x^4+C", "x^4+cx"),
        ("\\frac{a}{\\sin C}", "\\frac{a}{\\sin c}"),
        ("(7,4)", "\\begin{pmatrix}4\\\\7\\end{pmatrix}"),
        ("[7,4]", "\\begin{pmatrix}7\\\\4\\end{pmatrix}"),
        ("\\begin{pmatrix}7&4\\end{pmatrix}", "\\begin{pmatrix}7\\\\4\\end{pmatrix}"),
        ("a:b=4:9", "b:a=4:9"),
        ("4 \\pmod 9", "13"),
        (
            "\\begin{cases}2&x>1\\\\3&x\\le 1\\end{cases}",
            "\\begin{cases}3&x>1\\\\2&\\text{otherwise}\\end{cases}",
        ),
    ],
)
def test_what_is_not_the_same_is_never_correct(grader: Grader, gold: str, answer: str) -> None:
    assert grader.verify(answer, gold) in (Verdict.WRONG, Verdict.GOLD_UNPARSED)
    assert grader.verify(gold, answer) in (Verdict.WRONG, Verdict.GOLD_UNPARSED)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("2x+7y-9=0", "y=\\frac{9-2x}{7}"),
        ("g(t)=t^3", "t^3"),
        ("CD=\\sqrt{20}", "2\\sqrt5"),
        ("QRS=TUV", "TUV = QRS"),
        ("V=IR", "IR"),
        ("3:8", "\\frac38"),
        ("y=C_1e^{3x}+C_{2}e^{-x}", "c_1 e^{3x}+c_2 e^{-x}"),
        ("(4,9)", "(p,q)=(4,9)"),
        ("48", "(6)(8)"),
        ("3\\text{ m/s}^2", "3\\text{ m/s\u00b2}"),
        # sets of tuples
        ("\\{(5,6),(7,8)\\}", "(7,8),(5,6)"),
        ("(2,3,4)", "\\{(2,3,4)\\}"),
        ("(0,1),(3,-3)", "\\left\\{(3,-3),\\,(0,1)\\right\\}"),
        # conditions and intervals
        ("\\{u|3<u\\leq 9\\}", "(3,9]"),
        ("[4,\\infty)", "\\{x \\in \\mathbb{R} : x \\ge 4\\}"),
        ("(-\\infty,-5]\\cup[6,\\infty)", "x\\le -5 \\text{ or } x\\ge 6"),
        ("(-3,3)", "|x|<3"),
        # upright constants and names of other schools
        ("3\\mathrm{e}^{-2}", "\\frac{3}{e^2}"),
        ("4-\\mathrm{i}", "-i+4"),
        ("\\lg 1000", "3"),
        ("\\operatorname{ctg} t", "\\frac{\\cos t}{\\sin t}"),
        ("\\operatorname{arctg} \\sqrt3", "\\frac{\\pi}{3}"),
        ("\\mathrm{C}_{9}^{4}", "126"),
        ("C_n^k", "\\binom{n}{k}"),
        ("2\\varphi", "2\\phi"),
        # Unicode
        ("45", "45\u00b0"),
        ("3\\sqrt{7}", "3\u221a7"),
        ("y^3", "y\u00b3"),
        ("2\\frac34", "2\u00be"),
        ("-8", "\u20138"),
        ("(5,9)", "\uff085\uff0c9\uff09"),
        ("35\\%", "35\uff05"),
        ("26", "26\u20ac"),
        ("\\frac{\\pi}{6}", "\u03c0/6"),
        # units, mixed numbers, full stops, no solution
        ("14 (marbles)", "14"),
        ("60\\text{ km/h}", "60\\text{ kilometers per hour}"),
        ("\\frac{11}{4}", "2 3/4"),
        ("2.75", "2\\frac{3}{4}"),
        ("$12$.", "12"),
        ("z^2", "$z^2$."),
        ("\\emptyset", "\\text{no real solutions}"),
        ("\\text{No solutions}", "no solution"),
        ("12:05\\text{ a.m.}", "12:05 am"),
        # as programs and Markdown write it
        ("3y^2", "3*y**2"),
        ("e^9", "exp(9)"),
        ("-\\frac{\\pi}{3}", "-pi/3"),
        ("2\\sqrt{6}", "2*sqrt(6)"),
        ("52", "**52**"),
        # several values
        ("\\frac{3\\pm\\sqrt{5}}{2}", "\\frac{3+\\sqrt5}{2}, \\frac{3-\\sqrt5}{2}"),
        ("n=1,4", "n=4 \\text{ or } n=1"),
        ("n=1 \\text{ or } n=4", "n\\in\\{4,1\\}"),
        ("2, 4, \\ldots, 2n", "2,4,\\dots,2n"),
        ("n \\equiv 5 \\pmod{9}", "n \\equiv -4 \\pmod 9"),
        ("n \\equiv 5 \\pmod{9}", "n \\bmod 9 = 5"),
        ("5", "32 mod 9"),
        ("\\sin 30^\\circ", "\\frac12"),
        ("\\sum_{k=1}^{n} k", "\\frac{n(n+1)}{2}"),
        # integers, and signs that do not matter
        ("\\lceil n/2 \\rceil", "n-\\lfloor n/2 \\rfloor"),
        ("(-1)^{n}", "\\cos(\\pi n)"),
        ("(-1)^{k-1}", "(-1)^{k+1}"),
        ("|u||v|", "|uv|"),
        ("\\sqrt{u^2-v^2}", "\\sqrt{(u-v)(u+v)}"),
        # repeating decimals, combinations, bases, units, order and ratios
        ("0.\\bar{7}", "\\frac79"),
        ("0.4\\dot{3}\\dot{6}", "\\frac{24}{55}"),
        ("9C4", "126"),
        ("2B_{12}", "35"),
        ("7\\text{ in.}", "7\\text{ inches}"),
        ("4\\text{ m}^{-2}", "4/m^2"),
        ("3\\text{ KG}", "3\\text{ kg}"),
        ("4 dogs", "4"),
        ("y=4, x=3", "(3,4)"),
        ("\\text{Acute Angle}", "\\text{acute angle}"),
        ("4:10", "2:5"),
        ("5:15", "\\frac13"),
        # roots, divisors, plurals, and what TeX writes otherwise
        ("\\sqrt[3]{-64}", "-4"),
        ("\\sqrt[5]{-3}", "-\\sqrt[5]{3}"),
        ("-3", "(-27)^{1/3}"),
        ("9", "(-27)^{\\frac{2}{3}}"),
        ("\\gcd(10^{30},15)", "5"),
        ("\\gcd(m,4)", "\\gcd(4,m)"),
        ("3\\text{ foxes}", "3\\text{ fox}"),
        ("4\\text{ cherries}", "4\\text{ cherry}"),
        ("\\boldsymbol{\\frac38}", "\\frac38"),
        ("\\bm{x}+1", "\\boldsymbol{x}+1"),
        ("\\underline{17}", "17"),
        ("{\\bf 17}", "17"),
        ("\\color{green}{17}", "17"),
        ("\\nicefrac38", "\\frac38"),
        ("{3 \\over 8}", "\\frac38"),
        ("{6 \\choose 2}", "15"),
        ("17;", "17"),
        # words and labels
        ("17", "seventeen"),
        ("\\text{sixty-four}", "64"),
        ("3", "\\text{three solutions}"),
        ("-\\infty", "negative infinity"),
        ("\\mathbb{R}", "\\text{all real numbers}"),
        ("\\text{None}", "\\text{no solution}"),
        ("\\emptyset", "\\text{the empty set}"),
        ("\\text{parabola}", "\\text{a parabola}"),
        ("-9", "negative nine"),
        ("(a) 4 (b) y+9", "\\text{a) } 4,\\ \\text{and (b) } 9+y"),
        ("(a) 4 (b) 9", "4, 9"),
        ("23", "\\text{Answer: } 23"),
        ("23", "The final answer is 23"),
        ("23", "\\text{Minimum value: } 23"),
        ("23", "\\text{The volume is } 23"),
        ("23", "Volume = 23"),
        ("23", "\\text{Area of } \\triangle PQR = 23"),
        ("23", "[PQR] = 23"),
        ("23", "23 = x"),
        ("\\frac27", "P(X \\ge 3) = \\frac27"),
        ("0", "\\lim_{n\\to\\infty} a_n = 0"),
        ("4:7:2", "x:y:z=4:7:2"),
        ("4:7", "4 \\text{ to } 7"),
        ("4", "4 \\pmod 9"),
        ("4", "4 \\bmod 9"),
        ("\\begin{cases}x=4\\\\y=9\\end{cases}", "x=4, y=9"),
        ("x=4, y=9", "(x,y)=(4,9)"),
        # units
        ("60\\,\\mu\\text{m}", "60\\text{ micrometers}"),
        ("60", "60 \\mu m"),
        ("60\\ \\text{k}\\Omega", "60\\text{ kilohms}"),
        ("6\\text{ MW}", "6 megawatts"),
        ("6\\text{ eV}", "6\\text{ electron volts}"),
        ("6", "6 \\frac{\\text{kg}}{\\text{m}^3}"),
        ("6", "6 m/s"),
        ("300", "300 K"),
        ("6\\text{ solar masses}", "6 M_{\\odot}"),
        ("8:15\\text{ am}", "8:15 a.m."),
        ("45^\\circ", "\\frac{\\pi}{4}"),
        # conditions, parameters, constants, vectors and pieces
        ("(4,9)", "x>4, x<9"),
        ("(4,9)\\setminus\\{5\\}", "x>4, x<9, x\\neq 5"),
        ("[4,9)", "x\\ge 4 \\text{ and } x<9 \\text{ and } x<9"),
        ("5\\mu m", "5 m\\mu"),
        ("(-\\infty,4)\\cup(9,\\infty)", "x<4, x>9"),
        ("(-\\infty,4)\\cup(9,\\infty)", "(-\\infty,4) \\text{ and } (9,\\infty)"),
        ("(-\\infty,4)\\cup\\{9\\}", "x<4 \\text{ or } x=9"),
        ("\\mathbb{R}\\setminus\\{4\\}", "x\\in\\mathbb{R}, x\\neq 4"),
        ("x=3k\\pi, k\\in\\mathbb{Z}", "x=3n\\pi \\text{ where } n\\in\\mathbb{Z}"),
        ("x^4+C", "x^4+c"),
        ("Ce^{-3t}", "Ke^{-3t}"),
        ("f(x)=4x-9", "y=4x-9"),
        ("(7,4)", "\\begin{pmatrix}7\\\\4\\end{pmatrix}"),
        ("(7,-4,1)", "7\\hat{i}-4\\hat{\\mathbf{j}}+\\vec{k}"),
        ("4,9,1", "[4,9,1]"),
        (
            "g(x)=\\begin{cases}2&x>1\\\\3&x\\le 1\\end{cases}",
            "\\begin{cases}3&\\text{if }x\\le 1,\\\\2&\\text{otherwise}\\end{cases}",
        ),
        # spellings
        ("x\\ge 4", "x >= 4"),
        ("(-\\infty,4)\\cup(9,\\infty)", "(-\\infty,4) U (9,\\infty)"),
        ("(4,9)", "]4,9["),
        ("4:7", "4 \\colon 7"),
        ("\\max(4,n)", "\\max\\{4,n\\}"),
        ("\\begin{pmatrix}7\\\\4\\end{pmatrix}", "\\begin{pmatrix}7\\\\[6pt]4\\end{pmatrix}"),
        ("1101_2", "(1101)_2"),
        ("1101_2", "1101_{\\text{two}}"),
        ("1101_2", "1101\\text{ (base 2)}"),
        ("23 000", "23000"),
        ("3.1 x 10^5", "310000"),
        ("17", "`17`"),
    ],
)
def test_what_is_the_same_is_correct_and_read_to_its_end(grader: Grader, gold: str, answer: str) -> None:
    assert grader.verify(answer, gold) is Verdict.CORRECT
    assert grader.verify(gold, answer) is Verdict.CORRECT
    assert grader.parses(gold) and grader.parses(answer)


@pytest.mark.parametrize(
    "gold",
    [
        "8 \\text{ or possibly } 9",
        "\\foo 3",
        "x \\mapsto 2x",
        "\\frac{1}{2",
        "7 \\# 8",
        "f(x)=2x \\text{ for all } x",
        "",
    ],
)
def test_a_gold_with_an_unread_part_does_not_parse(grader: Grader, gold: str) -> None:
    assert not grader.parses(gold)
    assert grader.verify("8", gold) in (Verdict.GOLD_UNPARSED, Verdict.WRONG)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Answer: B or C", None),
        ("The answer is (D) and (F).", None),
        ("\\boxed{\\text{Option G}}", "G"),
        ("\\boxed{F - the third one}", "F"),
        ("\\boxed{D four litres}", "D"),
        ("\\boxed{3x^2} so Answer: H", "H"),
        ("\\boxed{7}\nAnswer: C", "C"),
        ("\\boxed{C. B is wrong}", "C"),
    ],
)
def test_an_option_is_one_and_an_explicit_one_counts(text: str, option: str | None) -> None:
    assert extract_choice(text) == option


@pytest.mark.parametrize("text", ["\\boxed{B or C}", "\\boxed{B, C}", "\\boxed{B and C}", "\\boxed{I am sure}"])
def test_a_box_with_several_options_or_a_sentence_names_none(text: str) -> None:
    assert extract_choice(text) not in list("ABCDEFGHIJ")
