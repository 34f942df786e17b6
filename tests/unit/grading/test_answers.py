"""The examples in the docstrings of the answer formulas are true."""

import doctest

from grading import answers


def test_the_examples_in_the_docstrings_are_true():
    result = doctest.testmod(answers)
    assert result.attempted > 10 and result.failed == 0
