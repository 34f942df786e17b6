"""What quantisation leaves of weights."""

import pytest
import torch

from training.platforms.rounding import round_weight


@pytest.mark.parametrize(("precision", "error"), [("fp8", 2**-4), ("int4", 1 / 14)])
def test_a_weight_is_rounded_to_values_that_the_precision_has(precision: str, error: float):
    weight = torch.randn(130, 300, generator=torch.Generator().manual_seed(0))  # blocks that are cut at the edges
    before = weight.clone()
    rounded = round_weight(weight, precision)
    assert torch.equal(weight, before) and not torch.equal(rounded, weight)
    # Half of the distance of two values: relative to the weight with a floating point, to the row's largest without.
    size = weight.abs() if precision == "fp8" else weight.abs().amax(dim=1, keepdim=True)
    assert ((rounded - weight).abs() <= size * error * 1.001 + 1e-4).all()
    assert torch.allclose(round_weight(rounded, precision), rounded)
    if precision == "int4":
        assert max(len(row.unique()) for row in rounded) <= 15


def test_zeros_stay_zero():
    assert not round_weight(torch.zeros(3, 4), "fp8").any() and not round_weight(torch.zeros(3, 4), "int4").any()
