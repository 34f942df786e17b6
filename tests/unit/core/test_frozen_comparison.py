"""The comparison of frozen results notices a changed, a missing and a new value."""

from tests.frozen.__main__ import differences


def test_every_difference_is_named_with_both_values() -> None:
    old = {"run": {"mean": 0.5, "low": 0.25, "rows": [7, 8]}, "gone": "a"}
    new = {"run": {"mean": 0.5 + 1e-12, "low": 0.2500001, "rows": [7, 9]}, "new": 1}
    lines = ["scores/run/low: 0.25 -> 0.2500001", "scores/run/rows/1: 8 -> 9", "scores/gone: 'a' -> '(absent)'"]
    assert list(differences("scores", old, new)) == [*lines, "scores/new: '(absent)' -> 1"]
    assert "verdicts/run/mean: 0.5 -> 0.500000000001" in differences("verdicts", old, new)
