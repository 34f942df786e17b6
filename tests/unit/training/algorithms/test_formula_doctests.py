"""The worked examples in the docstrings of the formulas, and that each formula has one."""

import doctest
import importlib
import inspect

import pytest

pytest.importorskip("torch")

FORMULAS = {
    "advantage": ["length_penalty", "group_advantage", "apply_prefix_weights"],
    "aggregate": ["agg_loss", "agg_mean"],
    "correction": ["rollout_correction"],
    "schedules.entropy": ["next_entropy_coefficient"],
    "methods.gate": ["group_gate"],
    "methods.on_policy": ["on_policy_loss"],
    "methods.sft": ["sft_token_loss", "sft_weight", "sft_coefficient", "policy_weight"],
    "mixed_loss": ["mixed_policy_token_loss"],
    "original": [
        "compute_grpo_outcome_advantage_split",
        "compute_sft_pure_loss",
        "compute_token_on_off_policy_loss",
    ],
    "schedules.prefix": ["prefix_ratio", "cut_prefix"],
    "registry": ["gamma_of"],
    "group_rejection": ["reject_groups"],
    "reshape": ["shape_off_policy", "shape_on_policy"],
    "tensors": ["mask_of_prefix"],
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_examples_are_true(name):
    module = importlib.import_module(f"training.algorithms.{name}")
    for formula in FORMULAS[name]:
        assert ">>> " in inspect.getdoc(getattr(module, formula)), f"{formula} has no example"
    failed, tried = doctest.testmod(module)
    assert tried and not failed
