"""The KL estimates come from verl, so they are not written again: here they meet the reference's numbers."""

import json

import pytest

torch = pytest.importorskip("torch")
core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")


def test_verls_kl_estimates_equal_the_reference(shared):
    golden = json.loads((shared / "golden" / "luffy_reference.json").read_text())
    given = golden["bundles"]["mixed_wide"]
    log_prob, reference = (torch.tensor(given[name], dtype=torch.float64)[:2] for name in ("log_prob", "old_log_prob"))
    cases = [case for case in golden["cases"] if case["fn"] == "core_algos.kl_penalty"]
    assert len(cases) == 4
    for case in cases:
        ours = core_algos.kl_penalty(log_prob, reference, case["in"]["kl_penalty"])
        torch.testing.assert_close(ours, torch.tensor(case["out"], dtype=torch.float64), rtol=1e-9, atol=1e-12)
