"""The worked examples in the docstrings of formulas are true."""

import doctest
from importlib import import_module

import pytest

STATISTICS = [
    f"statistics.{module}" for module in ("intervals", "outcomes", "paired", "benchmark_scores", "seed_statistics")
]


@pytest.mark.parametrize("module", [*STATISTICS, "report.figures"])
def test_examples_of_the_formulas(module):
    result = doctest.testmod(import_module(f"evaluation.{module}"))
    assert result.attempted and not result.failed
