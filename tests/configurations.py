"""What the tests of the training interpreter share: configurations that are quick to compose."""

from collections.abc import Iterator
from functools import cache

import pytest
import yaml
from omegaconf import base, grammar_parser


@pytest.fixture(scope="session", autouse=True)
def quick_configurations() -> Iterator[None]:
    """Hundreds of tests compose a configuration: libyaml reads verl's files, and each reference in them is parsed once.

    Neither changes what is composed.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "SafeLoader", yaml.CSafeLoader)
        patch.setattr(base, "parse", cache(grammar_parser.parse))
        yield
