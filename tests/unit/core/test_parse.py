"""Texts that are small and stand for something large."""

import pytest

from core.errors import InputError
from core.text.parse import LARGEST, parse_yaml


def laughs(levels: int) -> str:
    """Each level holds the one before nine times."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.timeout(20)
def test_yaml_that_grows_by_aliases_is_refused() -> None:
    with pytest.raises(InputError, match=rf"profile x: .*more than {LARGEST:,} values"):
        parse_yaml(laughs(40), "profile x")
    with pytest.raises(InputError, match=r"profile x: .*itself"):
        parse_yaml("a: &a [*a]", "profile x")


def test_aliases_stand_for_what_they_name() -> None:
    assert parse_yaml("a: &a {b: [1, 2]}\nc: *a\nd: [*a, *a]", "x") == {
        "a": {"b": [1, 2]},
        "c": {"b": [1, 2]},
        "d": [{"b": [1, 2]}, {"b": [1, 2]}],
    }
    assert len(parse_yaml(laughs(3), "x")["a2"]) == 9
