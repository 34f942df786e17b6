"""Texts that are small and stand for something large."""

import pytest

from core.errors import InputError
from core.text.parse import LARGEST, parse_json, parse_object, parse_yaml


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


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "x:\n- {b: 1}\n- {b: 1, 'b': 2}", "? [{b: 1,\n\n  b: 1}]\n: 1"])
def test_a_key_that_is_given_twice_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^profile x, line 3: the key [ab] is given twice; give it once$"):
        parse_yaml(text, "profile x")


def test_keys_of_different_mappings_and_merged_ones_may_be_equal() -> None:
    merged = "base: &base {a: 1, b: 2}\nmine: &mine {<<: *base, a: 3}\nother: {<<: *mine, b: 4}\nlist: [{a: 1}, {a: 2}]"
    values = parse_yaml(merged, "x")
    assert parse_yaml("{1: a, '1': b}", "x") == {1: "a", "1": "b"}
    assert values["mine"] == {"a": 3, "b": 2} and values["other"] == {"a": 3, "b": 4}
    assert parse_yaml("", "x") is None and parse_yaml("null", "x") is None and parse_yaml("3", "x") == 3
    with pytest.raises(InputError, match="not YAML"):
        parse_yaml("a: 1\n---\nb: 2", "x")


def test_keys_of_rows_may_be_given_twice_and_those_of_settings_may_not() -> None:
    text = '{"a": [{"b": 1, "b": 2}]}'
    assert parse_json(text, "x") == {"a": [{"b": 2}]}
    with pytest.raises(InputError, match=r"^x: the key b is given twice; give it once$"):
        parse_object(text, "x", unique=True)
