"""Settings and rows in YAML and JSON: which keys may be given twice."""

import pytest

from core.errors import InputError
from core.text.parse import parse_json, parse_object, parse_yaml


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
