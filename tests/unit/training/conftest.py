"""What the tests of the training share."""

from collections.abc import Iterator
from functools import cache

import pytest
import yaml


@pytest.fixture(scope="session", autouse=True)
def quick_configurations() -> Iterator[None]:
    """Hundreds of tests compose a configuration: libyaml reads verl's files, and each reference in them is parsed once.

    Neither changes what is composed.
    """
    from omegaconf import base, grammar_parser  # here, since the orchestration environment has none and reads this too

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "SafeLoader", yaml.CSafeLoader)
        patch.setattr(base, "parse", cache(grammar_parser.parse))
        yield
