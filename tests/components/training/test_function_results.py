"""What a function of the user's returns or raises in training: taken only as its key expects it."""

from pathlib import Path

import pytest
import torch

from core.plugins.user_code import UserFunctionError
from training.algorithms.correction import Mismatch, rollout_correction
from training.algorithms.options import RolloutCorrectionOptions
from training.algorithms.registry import CORRECTIONS, KEYS, LOSSES


def test_an_error_of_a_function_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(mismatch, options):\n    raise KeyError('x')\n")
    with pytest.raises(UserFunctionError, match=r"bad\.py:f raised KeyError: 'x'"):
        CORRECTIONS.function(f"{tmp_path}/bad.py:f")(None, None)
    with pytest.raises(ValueError, match=r"expected file\.py:function"):
        LOSSES.find(":f")


WRONG = {
    "mixed.gate.type": ["None", "0.5", "(1.0, 0.0, 1.0)", "(float('nan'), 1.0)", "(-1.0, 1.0)", "(1.0, 'x')"],
    "mixed.prefix.strategy": ["None", "1.5", "float('nan')"],
    "mixed.loss": [
        "None",
        "args[1]",
        "(args[1], None)",
        "(args[1], {'a': args[1].sum()})",
        "(args[1], {'a': (args[1], args[3])})",
        "(args[1].sum(), {})",
    ],
    "mixed.on_policy_loss": ["None", "args[0]", "(args[0], args[0].sum())"],
    "mixed.loss_agg_mode": ["args[0].sum()", "(args[0], 1)", "(args[0].sum(), None)"],
    "mixed.sft_multitask.weight": ["1.0", "args[0].sum()"],
    "mixed.on_policy_reshape": ["args[0].sum()"],
    "mixed.rollout_correction.type": [
        "None",
        "args[0].ratio",
        "(args[0].ratio, args[0].ratio)",
        "(-args[0].ratio, args[0].on_policy)",
        "(args[0].ratio / 0, args[0].on_policy)",
        "(args[0].ratio[:1], args[0].on_policy)",
    ],
}


@pytest.mark.parametrize(("key", "result"), [(key, result) for key, results in WRONG.items() for result in results])
def test_a_wrong_result_names_the_key_and_the_function(key: str, result: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(f"def f(*args):\n    return {result}\n")
    tokens, mask = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    first = Mismatch(tokens, mask) if key == "mixed.rollout_correction.type" else tokens
    given = [1, 2, None] if key == "mixed.gate.type" else [first, tokens, tokens, mask, mask, None]
    with pytest.raises(UserFunctionError, match=rf"{key}.*: {tmp_path}/wrong\.py:f returned .*, expected "):
        KEYS[key].function(f"{tmp_path}/wrong.py:f")(*given[: len(KEYS[key].arguments)])


RUDE = """
def rude(old, new, advantages, response_mask, off_policy_mask, options):
    response_mask &= off_policy_mask
    return -advantages * new, {}

def polite(old, new, advantages, response_mask, off_policy_mask, options):
    losses = -advantages * new
    losses *= 2
    return losses, {"mine": (losses.sum(), response_mask.sum())}
"""


def test_a_loss_cannot_change_what_is_read_after_it(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(RUDE)
    tokens, mask = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
    given = tokens, tokens, tokens, mask, ~mask, None
    assert LOSSES.function(f"{tmp_path}/losses.py:polite")(*given)[1]["mine"][0] == -12
    message = r"mixed\.loss: .*losses\.py:rude changed its argument response_mask in place: change a copy"
    with pytest.raises(UserFunctionError, match=message):
        LOSSES.function(f"{tmp_path}/losses.py:rude")(*given)


def test_a_token_that_a_correction_drops_has_no_weight(tmp_path: Path) -> None:
    (tmp_path / "drop.py").write_text("def f(mismatch, options):\n    return mismatch.ratio, mismatch.ratio > 9\n")
    options = RolloutCorrectionOptions(type=f"{tmp_path}/drop.py:f")
    old, rollout = torch.zeros(1, 2), torch.tensor([[-3.0, 0.0]])
    weights, keep, _ = rollout_correction(old, rollout, torch.ones(1, 2), None, options)
    assert keep.tolist() == [[True, False]]
    assert weights.tolist() == [[pytest.approx(20.0855, rel=1e-4), 0.0]]
