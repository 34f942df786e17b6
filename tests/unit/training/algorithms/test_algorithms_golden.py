"""Every golden case of the reference implementation, and each place where ours differs from it on purpose."""

import json
import math

import pytest

torch = pytest.importorskip("torch")

from training.algorithms import (  # noqa: E402
    compute_grpo_outcome_advantage_split,
    compute_sft_pure_loss,
    compute_token_on_off_policy_loss,
)
from training.algorithms.advantage import group_advantage  # noqa: E402
from training.algorithms.mixed_loss import mixed_policy_token_loss  # noqa: E402
from training.algorithms.options import GroupOptions, LossOptions  # noqa: E402

RTOL = {"float32": 1e-5, "float64": 1e-9}
LOSS_KEYS = [
    "pg_loss",
    "off_pg_loss",
    "on_pg_loss",
    "off_pg_clipfrac",
    "on_pg_clipfrac",
    "ppo_kl",
    "off_policy_prob",
    "on_policy_prob",
    "off_ratio_mean",
    "off_ratio_max_clip_frac",
    "off_ratio_min_clip_frac",
]
# Cases of the reference whose outcome is ours instead, each tested below by name.
OURS = {
    "adv/ERR_group_without_on_policy",
    "adv/ERR_index_is_tensor",
    "adv/ERR_on_policy_mask_int",
    "loss/target_probs_missing_marker",
    "loss/ERR_off_p_div_p_0.2",
    "loss/ERR_off_p_div_p_1.0",
    "loss/ERR_on_p_div_p_0.3",
    "loss/WRONG_prefix_int64",
    "sft/empty_mask",
    "sft/no_rows",
}
# The reference is nan by overflow or underflow, not by an empty selection: ours is the finite value, not 0.
OVERFLOWS = {"loss/on_p_div_p_underflow_f32", "loss/ratio_overflow_on_prefix_f32"}


@pytest.fixture(scope="session")
def golden(shared):
    return json.loads((shared / "golden" / "luffy_reference.json").read_text())


def cases(golden, function):
    return {case["name"]: case for case in golden["cases"] if case["fn"] == function}


def tensor(values, dtype):
    def numbers(value):
        return [numbers(item) for item in value] if isinstance(value, list) else float(value)

    return torch.tensor(numbers(values), dtype=dtype)


def bundle(golden, case):
    """The tensors of a case, prefix_mask bool and eos_mask int64 unless the case says otherwise."""
    dtype = getattr(torch, case.get("dtype", "float64"))
    values = golden["bundles"][case["bundle"]] | case.get("override", {})
    tensors = {name: tensor(value, dtype) for name, value in values.items() if name != "seed"}
    masks = {"float": dtype, "bool": torch.bool, "int64": torch.int64}
    tensors["eos_mask"] = tensors["eos_mask"].to(masks[case.get("eos_mask_dtype", "int64")])
    tensors["prefix_mask"] = tensors["prefix_mask"].to(masks[case.get("prefix_mask_dtype", "bool")])
    if not case.get("use_target_probs"):
        tensors.pop("target_probs")
    tensors["log_prob"].requires_grad_()
    return tensors


def loss(golden, case, **changes):
    tensors = bundle(golden, case) | changes
    output = compute_token_on_off_policy_loss(**tensors, **case["kwargs"])
    output["pg_loss"].backward()
    return output, tensors["log_prob"].grad


def assert_close(name, ours, theirs, rtol):
    assert math.isclose(ours, theirs, rel_tol=rtol, abs_tol=rtol * 1e-2), f"{name}: {ours} instead of {theirs}"


def test_losses_and_gradients_equal_the_reference(golden):
    compared = 0
    for name, case in cases(golden, "compute_token_on_off_policy_loss").items():
        if name in OURS or "raises" in case["out"]:
            continue
        compared += 1
        output, gradient = loss(golden, case)
        assert list(output) == LOSS_KEYS
        rtol = RTOL[case["dtype"]]
        for key, expected in case["out"].items():
            ours, expected = float(output[key].detach()), float(expected)
            assert output[key].shape == ()
            assert output[key].requires_grad == (key == "pg_loss")
            if not math.isnan(expected):
                assert_close(f"{name} {key}", ours, expected, rtol)
            elif name in OVERFLOWS:
                assert math.isfinite(ours), f"{name} {key}"
            else:
                assert ours == 0.0, f"{name} {key}: a mean over nothing is 0"
        expected = tensor(case["grad_pg_loss_wrt_log_prob"], gradient.dtype)
        assert gradient.isfinite().all(), name
        known = expected.isfinite()
        torch.testing.assert_close(gradient[known], expected[known], rtol=rtol, atol=rtol * 1e-2, msg=name)
        if not known.any():
            assert gradient.count_nonzero() == 0, name
    assert compared == 58


def test_losses_that_the_reference_refuses_are_refused(golden):
    refused = {
        name: case
        for name, case in cases(golden, "compute_token_on_off_policy_loss").items()
        if "raises" in case["out"] and name not in OURS
    }
    assert set(refused) == {"loss/ERR_unknown", "loss/ERR_prefix_float"}
    with pytest.raises(ValueError, match="p_div_p_G with a number G > 0"):
        loss(golden, refused["loss/ERR_unknown"])
    with pytest.raises(TypeError, match=r"prefix_mask: expected dtype torch\.bool, got torch\.float64"):
        loss(golden, refused["loss/ERR_prefix_float"])


def test_ours_an_integer_prefix_mask_is_refused(golden):
    case = cases(golden, "compute_token_on_off_policy_loss")["loss/WRONG_prefix_int64"]
    with pytest.raises(TypeError, match="prefix_mask"):
        loss(golden, case)


@pytest.mark.parametrize("name", ["loss/ERR_off_p_div_p_0.2", "loss/ERR_off_p_div_p_1.0", "loss/ERR_on_p_div_p_0.3"])
def test_ours_every_gamma_works(golden, name):
    case = cases(golden, "compute_token_on_off_policy_loss")[name]
    tensors = bundle(golden, case)
    log_prob, old, prefix = tensors["log_prob"].detach(), tensors["old_log_prob"], tensors["prefix_mask"]
    p, p0 = log_prob.exp(), old.exp()
    off, on = p, p / p0
    if "off_policy_reshape" in case["kwargs"]:
        off = p / (p + float(case["kwargs"]["off_policy_reshape"].removeprefix("p_div_p_")))
    else:
        on = (p / (p + 0.3)) / (p0 / (p0 + 0.3))
    advantages, mask = tensors["advantages"], tensors["eos_mask"].double()
    on_loss = torch.maximum(-advantages * on, -advantages * on.clamp(0.8, 1.2))
    expected = (torch.where(prefix, -advantages * off, on_loss) * mask).sum() / mask.sum()
    output, _ = loss(golden, case)
    assert_close(name, float(output["pg_loss"].detach()), float(expected), 1e-9)


def test_ours_a_missing_phi_means_one(golden):
    case = cases(golden, "compute_token_on_off_policy_loss")["loss/target_probs_missing_marker"]
    missing, gradient = loss(golden, case)
    tensors = bundle(golden, case)
    ones, expected = loss(golden, case, target_probs=torch.ones_like(tensors["target_probs"]))
    assert {key: float(value.detach()) for key, value in missing.items()} == {
        key: float(value.detach()) for key, value in ones.items()
    }
    assert torch.equal(gradient, expected)
    assert missing["off_ratio_mean"] > 0


def test_ours_the_ratio_to_phi_can_be_shaped(golden):
    case = cases(golden, "compute_token_on_off_policy_loss")["loss/target_probs_reshape_ignored"]
    tensors = bundle(golden, case)
    options, phi = LossOptions(off_policy_reshape="p_div_p_0.1"), tensors.pop("target_probs")
    arguments = tuple(tensors[n] for n in ("old_log_prob", "log_prob", "advantages", "eos_mask", "prefix_mask"))
    losses, _ = mixed_policy_token_loss(*arguments, options, phi, shape_target_ratio=True)
    ratio = tensors["log_prob"].exp() / (phi + 1e-6)
    expected = -tensors["advantages"] * ratio / (ratio + 0.1)
    off_policy = tensors["prefix_mask"] & tensors["eos_mask"].bool()
    torch.testing.assert_close(losses[off_policy], expected[off_policy], rtol=1e-9, atol=1e-12)


def advantage(case, **changes):
    given = case["in"]
    dtype = getattr(torch, case["dtype"])
    kinds = {"list": list, "tensor": torch.tensor, "object": lambda ids: __import__("numpy").array(ids, dtype=object)}
    arguments = {
        "token_level_rewards": tensor(given["token_level_rewards"], dtype),
        "eos_mask": torch.tensor(given["eos_mask"]),
        "index": kinds[given["index_kind"]](given["index"]),
        "epsilon": given["epsilon"],
        "use_std": given["use_std"],
    }
    if "on_policy_mask" in given:
        kind = torch.bool if given["on_policy_mask_dtype"] == "bool" else torch.int64
        arguments["on_policy_mask"] = torch.tensor(given["on_policy_mask"], dtype=kind)
    return arguments | changes


def test_split_advantages_equal_the_reference(golden):
    compared = 0
    for name, case in cases(golden, "compute_grpo_outcome_advantage_split").items():
        if name in OURS:
            continue
        compared += 1
        arguments = advantage(case)
        advantages, returns = compute_grpo_outcome_advantage_split(**arguments)
        assert returns is advantages
        assert advantages.dtype == arguments["token_level_rewards"].dtype
        rtol = RTOL[case["dtype"]]
        expected = tensor(case["out"]["advantages"], advantages.dtype)
        torch.testing.assert_close(advantages, expected, rtol=rtol, atol=rtol, msg=name)
    assert compared == 12


def test_union_baseline_equals_grpo_of_the_reference(golden):
    union = [case for case in golden["cases"] if case["name"].startswith("grpo/")]
    assert len(union) == 3
    for case in union:
        arguments = advantage(case)
        scores = arguments["token_level_rewards"].sum(dim=-1)
        none = torch.zeros(len(scores), dtype=torch.bool)
        options = GroupOptions(baseline="all_samples", use_std=arguments["use_std"])
        ours = group_advantage(scores, arguments["index"], none, options, arguments["epsilon"])
        expected = tensor(case["out"]["advantages"], scores.dtype)
        torch.testing.assert_close(
            ours.unsqueeze(-1) * arguments["eos_mask"], expected, rtol=1e-5, atol=1e-7, msg=case["name"]
        )


@pytest.mark.parametrize("name", ["adv/ERR_index_is_tensor", "adv/ERR_on_policy_mask_int"])
def test_ours_any_index_and_any_mask_dtype(golden, name):
    every = cases(golden, "compute_grpo_outcome_advantage_split")
    ours, _ = compute_grpo_outcome_advantage_split(**advantage(every[name]))
    expected = tensor(every["adv/basic_std"]["out"]["advantages"], torch.float32)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-7)


def test_ours_a_group_without_on_policy_rows_has_mean_0_and_deviation_1(golden):
    case = cases(golden, "compute_grpo_outcome_advantage_split")["adv/ERR_group_without_on_policy"]
    arguments = advantage(case)
    ours, _ = compute_grpo_outcome_advantage_split(**arguments)
    scores = arguments["token_level_rewards"].sum(dim=-1)
    expected = (scores / (1 + 1e-6)).unsqueeze(-1) * arguments["eos_mask"]
    torch.testing.assert_close(ours[:2], expected[:2], rtol=1e-6, atol=0)


def test_sft_losses_equal_the_reference(golden):
    every = cases(golden, "compute_sft_pure_loss")
    for name in ("sft/basic", "sft/one_row"):
        case = every[name]
        log_prob = tensor(case["in"]["log_prob"], torch.float64).requires_grad_()
        ours = compute_sft_pure_loss(log_prob, torch.tensor(case["in"]["eos_mask"]))
        ours.backward()
        assert_close(name, float(ours.detach()), float(case["out"]), 1e-9)
        torch.testing.assert_close(log_prob.grad, tensor(case["grad"], torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 4), (0, 4)])
def test_ours_the_sft_loss_of_nothing_is_0_with_a_zero_gradient(shape):
    log_prob = torch.full(shape, -1.0, requires_grad=True)
    ours = compute_sft_pure_loss(log_prob, torch.zeros(shape, dtype=torch.int64))
    ours.backward()
    assert ours.item() == 0.0
    assert torch.equal(log_prob.grad, torch.zeros(shape))


def test_without_off_policy_tokens_it_is_the_references_ppo_loss(golden):
    compared = 0
    for name, case in cases(golden, "core_algos.compute_policy_loss").items():
        compared += 1
        tensors = bundle(golden, case)
        tensors["prefix_mask"] = torch.zeros_like(tensors["prefix_mask"])
        ours = compute_token_on_off_policy_loss(**tensors, clip_upper_bound=1.0, off_cliprange=0.2, **case["kwargs"])
        ours["pg_loss"].backward()
        for key in ("pg_loss", "ppo_kl"):
            assert_close(f"{name} {key}", float(ours[key].detach()), float(case["out"][key]), 1e-9)
        expected = tensor(case["grad_pg_loss_wrt_log_prob"], torch.float64)
        torch.testing.assert_close(tensors["log_prob"].grad, expected, rtol=1e-9, atol=1e-12, msg=name)
    assert compared == 3
