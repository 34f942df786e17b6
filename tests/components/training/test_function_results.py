"""What a function of the user's returns or raises in training."""

from pathlib import Path

import pytest
import torch

from core.plugins.user_code import UserFunctionError
from training.algorithms.correction import rollout_correction
from training.algorithms.options import RolloutCorrectionOptions
from training.algorithms.registry import CORRECTIONS, LOSSES


def test_an_error_of_a_function_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(mismatch, options):\n    raise KeyError('x')\n")
    with pytest.raises(UserFunctionError, match=r"bad\.py:f raised KeyError: 'x'"):
        CORRECTIONS.function(f"{tmp_path}/bad.py:f")(None, None)
    with pytest.raises(ValueError, match=r"expected file\.py:function"):
        LOSSES.find(":f")


def test_a_token_that_a_correction_drops_has_no_weight(tmp_path: Path) -> None:
    (tmp_path / "drop.py").write_text("def f(mismatch, options):\n    return mismatch.ratio, mismatch.ratio > 9\n")
    options = RolloutCorrectionOptions(type=f"{tmp_path}/drop.py:f")
    old, rollout = torch.zeros(1, 2), torch.tensor([[-3.0, 0.0]])
    weights, keep, _ = rollout_correction(old, rollout, torch.ones(1, 2), None, options)
    assert keep.tolist() == [[True, False]]
    assert weights.tolist() == [[pytest.approx(20.0855, rel=1e-4), 0.0]]
