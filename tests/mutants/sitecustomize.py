"""Python imports this module first, if its folder is on the path: it plants the fault that the variable names."""

import os

import drawn_mutants  # noqa: F401
import written_mutants  # noqa: F401
from planting import MUTANTS, VARIABLE, plant

if name := os.environ.get(VARIABLE):
    plant(MUTANTS[name])
