"""Rollout corrections: golden vectors, the relations between the types, off-policy tokens, empty rows."""

import json
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hypothesis import assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from verl.trainer.ppo.rollout_corr_helper import (  # noqa: E402
    compute_rollout_correction_weights,
    compute_rollout_rejection_mask,
)

from training.algorithms.aggregate import BatchSize, agg_loss  # noqa: E402
from training.algorithms.correction import (  # noqa: E402
    CORRECTIONS,
    Correction,
    Uncorrected,
    prefix_means,
    rollout_correction,
)
from training.algorithms.on_policy import Ppo  # noqa: E402
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402

NAMES = ["none", *CORRECTIONS]
BANDS = [(0.5, 5.0), (0.8, 2.0), (0.2, 10.0)]


GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "rollout_correction.json").read_text(encoding="utf-8"))


def correct(old_log_prob, rollout_log_prob, mask, off_policy=None, type="reinforce_pro", low=0.5, high=5.0):
    options = Correction(type=type, low=low, high=high) if type != "none" else Uncorrected()
    return rollout_correction(old_log_prob, rollout_log_prob, mask, off_policy, options)


@st.composite
def log_probs(draw, low=-10.0):
    """(old, rollout, mask, off_policy): rows of any length, some of which begin with off-policy tokens."""
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    values = st.lists(st.floats(low, 0.0, width=32), min_size=rows * length, max_size=rows * length)
    old, rollout = (torch.tensor(draw(values)).view(rows, length) for _ in range(2))
    ends = torch.tensor(draw(st.lists(st.integers(0, length), min_size=rows, max_size=rows))).unsqueeze(-1)
    starts = torch.tensor(draw(st.lists(st.integers(0, length), min_size=rows, max_size=rows))).unsqueeze(-1)
    position = torch.arange(length)
    return old, rollout, position < ends, (position < starts) & (position < ends)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['type']}-{case['band']}-{case['mode']}")
def test_golden_losses_gradients_and_masks(case):
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in GOLDEN["inputs"].items()}
    mask, old, rollout = given["mask"].bool(), given["old"], given["rollout"]
    log_prob = given["new"].requires_grad_()
    losses, _ = mixed_policy_token_loss(old, log_prob, given["advantages"], mask, torch.zeros_like(mask), Ppo(), None)
    weights, keep, _ = correct(old, rollout, mask, None, case["type"], *case["band"])
    loss = agg_loss(losses * weights, mask, case["mode"], BatchSize(int(mask.sum()), len(mask)))
    loss.backward()
    assert loss.item() == pytest.approx(case["loss"], rel=1e-6)
    torch.testing.assert_close(log_prob.grad, torch.tensor(case["grad"]).double(), rtol=1e-6, atol=1e-9)
    assert torch.equal(keep[mask], torch.tensor(case["kept"]).bool()[mask])
    means = prefix_means(torch.where(mask, old - rollout, 0.0), mask)
    torch.testing.assert_close(means[mask], torch.tensor(case["prefix_means"]).double()[mask], rtol=1e-6, atol=0)


# verl's arguments of the same correction, for the band [0.5, 2]: its rejection compares 1 / w with its band.
SEQUENCES = {
    "seq-tis": {"rollout_is": "sequence", "rollout_is_threshold": 2.0},
    "seq-mis": {"rollout_is": "sequence", "rollout_is_threshold": "0.5_2.0"},
    "geo-mask": {"rollout_rs": "seq_mean_k1", "rollout_rs_threshold": "0.5_2.0"},
}


@pytest.mark.parametrize("name", SEQUENCES)
@settings(max_examples=60, deadline=None)
@given(rows=log_probs(low=-1.5).filter(lambda rows: bool(rows[2].any())))
def test_the_corrections_of_whole_sequences_are_verls(name, rows):
    old, rollout, mask, _ = (tensor.double() if tensor.is_floating_point() else tensor for tensor in rows)
    options = Correction(type=name, low=0.0 if name == "seq-tis" else 0.5, high=2.0)
    weights, keep, _ = rollout_correction(old, rollout, mask, None, options)
    log_ratio = torch.where(mask, old - rollout, 0.0)
    if name == "geo-mask":
        kept, _ = compute_rollout_rejection_mask(log_ratio, mask.double(), **SEQUENCES[name])
        assert torch.equal(keep[mask], kept[mask].bool())
        assert torch.equal(weights[mask], kept[mask])
    else:
        assume(keep[mask].any())  # verl's metrics divide by the weights
        expected, _ = compute_rollout_correction_weights(log_ratio, mask.double(), **SEQUENCES[name])
        torch.testing.assert_close(weights[mask], expected[mask])
        assert torch.equal(keep[mask], expected[mask] > 0)


@settings(max_examples=60)
@given(log_probs(), st.sampled_from(BANDS))
def test_reinforce_pro_is_icepop_at_the_first_token_and_seq_mask_tis_at_the_last(given, band):
    old, rollout, mask, off_policy = given
    old, rollout = old.double(), rollout.double()
    keep = {name: correct(old, rollout, mask, off_policy, name, *band)[1] for name in NAMES}
    on_policy = mask & ~off_policy
    for row in range(len(on_policy)):
        positions = on_policy[row].nonzero().flatten().tolist()
        if positions:
            first, last = positions[0], positions[-1]
            assert keep["reinforce_pro"][row, first] == keep["icepop"][row, first]
            mean = (old - rollout)[row][on_policy[row]].mean().exp()
            if all(abs(mean - edge) > 1e-9 for edge in band):  # a cumulative sum may round to the other side of an edge
                assert keep["reinforce_pro"][row, last] == keep["seq-mask-tis"][row, last]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(given=log_probs())
def test_every_type_is_the_identity_when_both_agree(name, given):
    old, _, mask, off_policy = given
    weights, keep, metrics = correct(old, old, mask, off_policy, name)
    assert torch.equal(weights, torch.ones_like(old))
    assert keep.all()
    assert metrics["kept_share"] == 1.0
    assert metrics["abs_log_ratio_max"] == 0.0
    assert metrics["first_rejected_position"] == -1.0


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(given=log_probs(low=-1e4), band=st.sampled_from(BANDS), half=st.booleans())
def test_finite_and_off_policy_tokens_untouched(name, given, band, half):
    old, rollout, mask, off_policy = given
    # Off-policy and padding tokens have no rollout probability: whatever stands there must not matter.
    rollout = torch.where(mask & ~off_policy, rollout, math.nan)
    if half:
        old, rollout = old.bfloat16(), rollout.bfloat16()
    weights, keep, metrics = correct(old, rollout, mask, off_policy, name, *band)
    assert weights.isfinite().all()
    assert weights.dtype == torch.float32
    assert all(math.isfinite(value) for value in metrics.values())
    assert (weights[off_policy] == 1.0).all()
    assert keep[off_policy].all()
    assert (weights[~keep] == 0.0).all()
    emptied, _, _ = correct(old[:, :0], rollout[:, :0], mask[:, :0], None, name, *band)
    assert emptied.shape == (len(old), 0)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_row_changes_nothing_for_the_others(name):
    torch.manual_seed(0)
    old, rollout = -torch.rand(3, 9), -torch.rand(3, 9)
    mask = torch.ones(3, 9, dtype=torch.bool)
    weights, keep, metrics = correct(old, rollout, mask, None, name, 0.8, 1.25)
    more = [torch.cat([tensor, torch.zeros(1, 9, dtype=tensor.dtype)]) for tensor in (old, rollout, mask)]
    with_empty = correct(*more, None, name, 0.8, 1.25)
    assert torch.equal(with_empty[0][:3], weights)
    assert torch.equal(with_empty[1][:3], keep)
    assert with_empty[2] == pytest.approx(metrics, rel=1e-6)


def test_metrics_say_what_was_rejected():
    ratios = torch.tensor([[1.0, 9.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.1]])
    mask = torch.ones(3, 4, dtype=torch.bool)
    _, _, metrics = correct(ratios.log(), torch.zeros(3, 4), mask, None, "icepop")
    assert metrics["kept_share"] == pytest.approx(10 / 12)
    assert metrics["rejected_rows"] == pytest.approx(2 / 3)
    assert metrics["first_rejected_position"] == pytest.approx((1 + 3) / 2)
    assert metrics["abs_log_ratio_max"] == pytest.approx(math.log(10))
    assert metrics["abs_log_ratio_mean"] == pytest.approx((math.log(9) + math.log(10)) / 12)
    assert metrics["prefix_is_p05"] <= metrics["prefix_is_p50"] <= metrics["prefix_is_p95"] <= 3.0


def test_divergence_and_effective_sample_size():
    ratios = torch.tensor([[1.0, 2.0, 7.0, 5.0], [0.5, 0.25, 9.0, 9.0]], dtype=torch.float64)
    mask, off_policy = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]), torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0]])
    counted = [1.0, 2.0, 0.5, 0.25]
    for name in NAMES:
        _, _, metrics = correct(ratios.log(), torch.zeros_like(ratios), mask, off_policy, name)
        assert metrics["kl"] == pytest.approx(-sum(map(math.log, counted)) / 4)
        assert metrics["k3_kl"] == pytest.approx(sum(w - 1 - math.log(w) for w in counted) / 4)
        assert metrics["ess"] == pytest.approx(sum(counted) ** 2 / (4 * sum(w * w for w in counted)))
    _, _, nothing = correct(ratios.log(), torch.zeros_like(ratios), torch.zeros_like(mask))
    assert [nothing[name] for name in ("kl", "k3_kl", "ess")] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["icepop", "seq-mask-tis", "reinforce_pro", "geo-mask", "seq-mis"])
def test_a_token_that_is_not_kept_has_no_weight_even_if_its_probability_is_unknown(name):
    old, rollout = torch.full((2, 2), -1.0), torch.tensor([[math.nan, -1.0], [-1.0, -1.0]])
    weights, keep, _ = correct(old, rollout, torch.ones(2, 2), None, name)
    assert not keep[0, 0] and weights[~keep].tolist() == [0.0] * int((~keep).sum())
    assert weights[1].tolist() == [1.0, 1.0]
