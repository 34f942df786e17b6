"""The examples in docstrings are true: those of training in its interpreter, all others in the other one."""

import doctest
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ["core", "grading", "targets", "evaluation", "assets", "pipelines"]
PACKAGES = ["training"] if find_spec("torch") else OTHERS
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")) if ">>> " in file.read_text()]


@pytest.mark.parametrize("module", [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES])
def test_the_examples_are_true(module: str) -> None:
    failed, tried = doctest.testmod(import_module(module.removesuffix(".__init__")))
    assert tried and not failed
