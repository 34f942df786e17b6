"""The KL estimates come from verl, so they are not written again: here they meet their formulas."""

import math

import pytest

torch = pytest.importorskip("torch")
core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")

# Of d = log_prob - reference (http://joschu.net/blog/kl-approx.html has k1, k2 and k3).
FORMULAS = {
    "kl": lambda d: d,
    "abs": abs,
    "mse": lambda d: d * d / 2,
    "low_var_kl": lambda d: math.exp(-d) - 1 + d,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_verls_kl_estimates_equal_their_formulas(name):
    log_prob = [-0.7, -2.25, -0.01, -4.5]
    reference = [-1.1, -0.5, -0.02, -3.75]
    ours = core_algos.kl_penalty(torch.tensor(log_prob).double(), torch.tensor(reference).double(), name)
    expected = [FORMULAS[name](a - b) for a, b in zip(log_prob, reference, strict=True)]
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-6, atol=1e-9)
