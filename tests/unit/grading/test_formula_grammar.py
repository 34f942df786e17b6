"""The grammar and latex2sympy2 make the same expression of a formula, whichever of them reads it."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import LarkError

from grading.expressions.answer_tokens import Unread
from grading.expressions.reading.formula_grammar import by_grammar, read_formula
from grading.expressions.reading.latex2sympy2_grammar import by_latex2sympy2

FORMULAS = (  # as `grading.expressions.reading.terms` writes them
    "17",
    "+{\\frac{25}{10}}",
    "-\\frac{7}{3}",
    "3x ^{ 2} - 4x  + 1",
    "a  - b  - c  + u _{1}",
    "2 / 3 / x ",
    "-x ^{ 2}",
    "x ^{ y ^{ 2}}",
    "\\frac{p  + q }{2r }",
    "\\sqrt{2} + \\sqrt[3]{x }",
    "5!",
    "(n  + 1)!",
    "\\binom{n }{2}",
    "\\lfloor x /2\\rfloor ",
    "|x  - 3|",
    "|x |^{ 2}",
    "\\ln |x  + 1|",
    "\\sin x \\cos y ",
    "\\sin 2x  + 1",
    "\\sin x \\cdot \\cos y ",
    "\\sin x /2",
    "\\sin (x )/2",
    "\\sin {x }y ",
    "\\sin (x )y ",
    "\\sin ^{ 2}x ",
    "\\sin (x )^{ 2}",
    "\\sin ^{ -1}(x )",
    "\\cosh ^{ -1}x ",
    "\\arctan \\frac{1}{2}",
    "\\exp (2t )",
    "\\log 100",
    "\\log _{ 2} 8",
    "\\log _{ a }^{ 2}(b )",
    "\\ln \\sin x y ",
    "e ^{ -\\frac{t }{R C }}",
    "2e ",
    "x e ^{ x }",
    "\\pi r ^{2}",
    "\\pi _{1}",
    "x _{m a x}^{ 2}",
    "x _{1 , 2}",
    "x _{r e d} + x _{o d o t} + x _{d}",
    "\\mathrm{I}(0)",
    "\\mu _{d x}(\\hat{t })",
    "\\omega _{n}t ",
    "\\vec{v } + \\overline{A B }",
    "\\mathrm{d}_{1}",
    "f (x )",
    "f _{1}(\\theta  )^{ 2}",
    "\\phi (2)",
    "x (y  + 1)",
    "2(x )(y )",
    "\\infty ",
    "-\\infty ",
    "3 + 4i ",
    "\\begin{pmatrix}1&2 + 3\\\\x &-1/2\\end{pmatrix}",
)
LEFT = (
    "\\int _{0}^{1} x dx ",
    "\\sum _{k =1}^{n } k ",
    "\\max (2,3)",
    "x ^{ 2}(y )",
    "x [y ]",
    "\\sin 2x (t )",
    "f (x , y )",
)


def same(one, other):
    return type(one) is type(other) and one == other  # to sympy, equal is what has the same form


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_grammar_reads_what_most_answers_consist_of_as_latex2sympy2_does(formula):
    assert same(by_grammar(formula), by_latex2sympy2(formula))


@pytest.mark.parametrize("formula", LEFT)
def test_other_formulas_are_left_to_latex2sympy2(formula):
    with pytest.raises((LarkError, Unread)):
        by_grammar(formula)
    assert isinstance(read_formula(formula), sympy.Expr)


@pytest.mark.parametrize("formula", ["", "x +", "\\frac{}{2}", "(x ", "x )", "x ^{ 2", "\\sin ", "x ^^{ 2}"])
def test_what_is_no_formula_is_not_read(formula):
    with pytest.raises(Unread):
        read_formula(formula)


NAMES = st.sampled_from(
    ["x ", "y ", "t ", "n ", "i ", "C ", "\\omega ", "\\pi ", "\\theta _{0}", "x _{1}", "\\mathrm{d}", "\\hat{u }"]
)
NUMBERS = st.sampled_from(["0", "1", "2", "12", "{\\frac{5}{10}}", "\\infty "])
FUNCTIONS = st.sampled_from(["\\sin ", "\\tan ", "\\ln ", "\\log ", "\\log _{ 2}", "\\arccos ", "\\sinh ", "\\exp "])


def larger(inner):
    """Formulas that are made of smaller ones, also where the parts run into each other."""
    argument = st.one_of(inner.map("({})".format), inner.map("{{{}}}".format), inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", " - ", "*", "\\cdot ", "/", "", ""]), inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: "\\frac{{{}}}{{{}}}".format(*pair)),
        st.tuples(NAMES, inner).map(lambda pair: "{}^{{ {}}}".format(*pair)),
        st.tuples(NAMES, inner).map(lambda pair: "{}({})".format(*pair)),
        st.tuples(FUNCTIONS, st.sampled_from(["", "^{2}", "^{ -1}"]), argument).map("".join),
        inner.map("({})".format),
        inner.map("\\sqrt{{{}}}".format),
        inner.map("e ^{{ {}}}".format),
        inner.map("({})!".format),
        inner.map("|{}|".format),
        inner.map("-{}".format),
    )


@settings(max_examples=80, deadline=None)
@given(st.recursive(NAMES | NUMBERS, larger, max_leaves=5))
def test_a_formula_that_the_grammar_reads_has_the_expression_that_latex2sympy2_makes(formula):
    formula = f"+{formula}"  # alone, something in braces is a set to latex2sympy2
    try:
        expression = by_grammar(formula)
    except (LarkError, Unread):  # it is left to latex2sympy2
        return
    assert same(expression, by_latex2sympy2(formula))
