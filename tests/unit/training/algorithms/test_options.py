"""Options: what combines, what contradicts, and that a message names the keys. No torch."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from training.algorithms.group_rejection import reject_groups
from training.algorithms.options import EntropyOptions, GroupOptions, MixedPolicyOptions
from training.algorithms.registry import CORRECTIONS, LOSS_AGG_MODES
from training.algorithms.schedules.entropy import EntropyController, next_entropy_coefficient

ONE_TARGET = {"n_prefix": 1}
LUFFY = {
    "off_policy_reshape": "p_div_p_0.1",
    "loss_remove_clip": True,
    "prefix": ONE_TARGET,
    "loss_agg_mode": "constant",
}
LUFFY_SEED = {
    "baseline": "on_policy",
    "use_std": True,
    "off_policy_reshape": "p_div_p_0.5",
    "off_max_clip": 10.0,
    "clip_upper_bound": 100.0,
    "prefix": {"n_prefix": 4, "strategy": "random", "min": 0.0, "max": 0.8},
}
RL_SFT_LOSS = {"use_off_policy_loss": False, "prefix": ONE_TARGET, "sft_multitask": {"use": True}}
ON_POLICY = {"use_off_policy_loss": False}
HPT = RL_SFT_LOSS | {"gate": {"type": "hard"}}
CHORD = RL_SFT_LOSS | {"sft_multitask": {"use": True, "coef": 0.9, "complement": True, "decay_steps": 9, "valley": 0.1}}
DAPO = ON_POLICY | {"clip_upper_bound": 1.28, "length_penalty": {"use": True}}
GSPO = ON_POLICY | {"on_policy_loss": "gspo", "clip_ratio": 3e-4, "clip_upper_bound": 1.0004}

POPE = ON_POLICY | {"prefix": {"n_prefix": 4, "place": "prompt", "strategy": "random", "min": 0.0}}
SRFT = {"prefix": ONE_TARGET, "loss_remove_clip": True, "on_policy_loss": "reinforce", "sft_multitask": {"use": True}}
SRFT |= {"srft": {"use": True}}
OPD = ON_POLICY | {"distillation": {"use": True, "task_rewards": False}}
UFT = ON_POLICY | {"prefix": {"n_prefix": -1, "strategy": "binomial", "min": 0.0, "max": 0.8}}


@pytest.mark.parametrize(
    "recipe", [{}, POPE, SRFT, OPD, UFT, LUFFY, LUFFY_SEED, RL_SFT_LOSS, ON_POLICY, HPT, CHORD, DAPO, GSPO]
)
def test_the_recipes_are_valid_and_survive_a_round_trip(recipe):
    options = MixedPolicyOptions.from_mapping(recipe)
    options.check_group(8)
    assert MixedPolicyOptions.from_mapping(options.model_dump()) == options
    assert hash(options) == hash(MixedPolicyOptions(**recipe))


def test_options_of_the_group_that_a_target_reads_combine_with_a_teacher():
    """Without the rewards of the task, the target still has the advantage of its group."""
    teacher = {"use": True, "task_rewards": False}
    MixedPolicyOptions.from_mapping({"prefix": ONE_TARGET, "use_std": True, "distillation": teacher})
    MixedPolicyOptions.from_mapping({"on_policy_loss": "cispo", "clip_ratio": 1.0, "clip_upper_bound": 1.2})


def test_options_combine_freely():
    for recipe, loss_agg_mode, correction, entropy, use_std in itertools.product(
        (LUFFY, LUFFY_SEED, RL_SFT_LOSS, ON_POLICY, HPT, CHORD, DAPO, GSPO),
        LOSS_AGG_MODES,
        CORRECTIONS,
        (True, False),
        (True, False),
    ):
        changes = {
            "loss_agg_mode": loss_agg_mode,
            "rollout_correction": {"type": correction},
            "adaptive_entropy": {"use": entropy},
            "use_std": use_std,
        }
        MixedPolicyOptions.from_mapping(recipe | changes).check_group(8)


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        ({"prefix": {"min": 0.9, "max": 0.1}}, "prefix.min=0.9", "prefix.max=0.1"),
        ({"prefix": {"strategy": "fixed", "share": True}}, "prefix.strategy=fixed", "prefix.share=True"),
        ({"rollout_correction": {"low": 6.0}}, "rollout_correction.low=6.0", "rollout_correction.high=5.0"),
        ({"adaptive_entropy": {"min": 1.0}}, "adaptive_entropy.min=1.0", "adaptive_entropy.max=0.1"),
        ({"sft_multitask": {"use": True, "coef": 0.0}}, "sft_multitask.use=True", "sft_multitask.coef=0"),
        ({"off_min_clip": 2.0, "off_max_clip": 1.0}, "off_min_clip=2.0", "off_max_clip=1.0"),
        ({"loss_remove_clip": True, "clip_upper_bound": 100.0}, "loss_remove_clip=True", "clip_upper_bound=100.0"),
        (LUFFY | {"use_off_policy_loss": False}, "use_off_policy_loss=False", "off_policy_reshape=p_div_p"),
        (ON_POLICY | {"off_max_clip": 1.0}, "use_off_policy_loss=False", "off_max_clip=1.0"),
        (RL_SFT_LOSS | {"prefix": ONE_TARGET | {"alpha": 2.0}}, "use_off_policy_loss=False", "prefix.alpha=2.0"),
        (ON_POLICY | {"sft_multitask": {"use": True}}, "sft_multitask.use=True", "prefix.n_prefix=0"),
        (LUFFY | {"off_policy_reshape_weight": 0.1}, "off_policy_reshape_weight=0.1", "off_policy_reshape=p_div_p"),
        ({"on_policy_reshape_pow_exp": 0.7}, "on_policy_reshape_pow_exp=0.7", "on_policy_reshape=no_reshape"),
        ({"on_policy_loss": "cispo", "loss_remove_clip": True}, "on_policy_loss=cispo", "loss_remove_clip=True"),
        ({"on_policy_loss": "gspo", "on_policy_reshape": "logp"}, "on_policy_loss=gspo", "on_policy_reshape=logp"),
        ({"sft_multitask": {"valley": 0.1}}, "sft_multitask.valley=0.1", "sft_multitask.decay_steps=0"),
        ({"sft_multitask": {"complement": True, "coef": 2.0}}, "complement=True", "sft_multitask.coef=2.0"),
        ({"gate": {"type": "soft", "gamma": 1}}, "gate.type=soft", "gate.gamma=1"),
        ({"gate": {"type": "hard"}, "prefix": ONE_TARGET}, "gate.type=hard", "sft_multitask.use=False"),
        (HPT | {"use_off_policy_loss": True}, "gate.type=hard", "use_off_policy_loss=True"),
        (ON_POLICY | {"clip_upper_bound": 0.5}, "clip_upper_bound=0.5", "clip_ratio=0.2"),
        (GSPO | {"clip_upper_bound": 1.0002}, "clip_upper_bound=1.0002", "clip_ratio=0.0003"),
        ({"on_policy_loss": "gmpo", "clip_ratio": 0.4, "clip_upper_bound": 1.45}, "bound=1.45", "clip_ratio=0.4"),
        ({"on_policy_loss": "cispo", "clip_upper_bound": 0.7}, "clip_upper_bound=0.7", "clip_ratio=0.2"),
        (ON_POLICY | {"baseline": "on_policy"}, "baseline=on_policy", "prefix.n_prefix=0"),
        (POPE | {"regularize_on": "on_policy"}, "prefix.place=prompt", "regularize_on=on_policy"),
        (SRFT | {"prefix": ONE_TARGET | {"beta": 0.5}}, "srft.use=True", "prefix.beta=0.5"),
        (OPD | {"use_std": True}, "use_std=True", "distillation.task_rewards=False"),
        (OPD | {"length_penalty": {"use": True}}, "length_penalty.use=True", "distillation.task_rewards=False"),
        (OPD | {"prefix": {"beta": 0.5}}, "prefix.beta=0.5", "distillation.task_rewards=False"),
    ],
)
def test_a_contradiction_names_both_options(values, first, second):
    with pytest.raises(InputError) as error:
        MixedPolicyOptions.from_mapping(values)
    assert first in str(error.value)
    assert second in str(error.value)
    assert str(error.value).startswith("mixed.") and "(got" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "n", "words"),
    [
        ({"prefix": {"n_prefix": 9}}, 8, "prefix.n_prefix=9 contradicts rollout.n=8"),
        ({"prefix": {"n_prefix": 8}, "baseline": "on_policy"}, 8, "baseline=on_policy contradicts prefix.n_prefix=8"),
        (UFT | {"baseline": "on_policy"}, 8, "baseline=on_policy contradicts prefix.n_prefix=-1"),
        (HPT | {"gate": {"type": "hard", "gamma": 7}}, 8, "gate.gamma=7 contradicts rollout.n=8: no group has more"),
        (HPT | {"prefix": {"n_prefix": 8}}, 8, "gate.type=hard contradicts prefix.n_prefix=8"),
        ({"prefix": {"n_prefix": -1}, "filter_on": "on_policy"}, 8, "filter_on=on_policy contradicts prefix.n_prefix"),
    ],
)
def test_a_contradiction_with_the_group_size(values, n, words):
    with pytest.raises(InputError, match=words):
        MixedPolicyOptions.from_mapping(values, n=n)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"off_policy_reshap": "pow"}, "mixed.off_policy_reshap is not a setting; did you mean off_policy_reshape?"),
        ({"prefix": {"ratio": 1.0}}, "mixed.prefix.ratio is not a setting; expected one of n_prefix, place,"),
        ({"prefix": 4}, "mixed.prefix: Input should be a mapping of keys to values (got 4)"),
        ({"baseline": "mean"}, "mixed.baseline: Input should be 'all_samples' or 'on_policy' (got 'mean')"),
        (
            {"off_policy_reshape": "p_div_p_0"},
            "mixed.off_policy_reshape: got 'p_div_p_0', expected one of no_reshape, logp,",
        ),
        ({"on_policy_reshape": 3}, "mixed.on_policy_reshape: Input should be a valid string (got 3)"),
        ({"use_std": 1}, "mixed.use_std: Input should be a valid boolean (got 1)"),
        ({"clip_ratio": 0}, "clip_ratio: Input should be greater than 0 (got 0)"),
        ({"clip_ratio": "0.2"}, "clip_ratio: Input should be a valid number (got '0.2')"),
        ({"off_max_clip": math.nan}, "mixed.off_max_clip: Input should be a finite number (got nan)"),
        ({"prefix": {"max": 1.1}}, "mixed.prefix.max: Input should be less than or equal to 1 (got 1.1)"),
        ({"prefix": {"n_prefix": 1.0}}, "mixed.prefix.n_prefix: Input should be a valid integer (got 1.0)"),
        (
            {"rollout_correction": {"type": "gspo"}},
            "mixed.rollout_correction.type: got 'gspo', expected one of none, tis",
        ),
    ],
)
def test_a_wrong_value_names_its_key(values, words):
    with pytest.raises(InputError) as error:
        MixedPolicyOptions.from_mapping(values)
    assert words in str(error.value)


ENTROPY = EntropyOptions(use=True, target=0.5, lr=0.1, min=1e-4, max=1e-1)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 12), max_size=30), st.floats(1e-4, 1e-1))
def test_the_entropy_coefficient_moves_against_the_difference_and_stays_within_its_bounds(entropies, start):
    controller = EntropyController(ENTROPY, start)
    for entropy in entropies:
        before, after = controller.coefficient, controller.update(entropy)
        assert ENTROPY.min * (1 - 1e-9) <= after <= ENTROPY.max * (1 + 1e-9)
        assert after <= before * (1 + 1e-9) if entropy >= ENTROPY.target else after >= before * (1 - 1e-9)


def test_the_entropy_coefficient_continues_after_a_resume():
    entropies = [0.1, 0.9, 0.3, 0.2, 0.6]
    whole = EntropyController(ENTROPY, 1e-3)
    expected = [whole.update(entropy) for entropy in entropies]
    first = EntropyController(ENTROPY, 1e-3)
    head = [first.update(entropy) for entropy in entropies[:2]]
    resumed = EntropyController(ENTROPY, 5e-2)
    resumed.load_state_dict(first.state_dict())
    assert head + [resumed.update(entropy) for entropy in entropies[2:]] == expected


def test_the_entropy_coefficient_refuses_what_is_no_entropy():
    with pytest.raises(ValueError, match="entropy: expected a finite number of nats, got nan"):
        EntropyController(ENTROPY, 1e-3).update(math.nan)
    with pytest.raises(ValueError, match=r"coefficient: expected a positive number, got 0\.0"):
        next_entropy_coefficient(0.0, 0.5, ENTROPY)
    with pytest.raises(InputError, match=r"adaptive_entropy\.use=True contradicts entropy_coeff=0\.0"):
        EntropyController(ENTROPY, 0.0)


def test_a_coefficient_that_is_not_adaptive_stays():
    assert EntropyController(EntropyOptions(), 0.0).update(3.0) == 0.0


UNION, ON_POLICY_ONLY = GroupOptions(filter_on="all_samples"), GroupOptions(filter_on="on_policy")


def test_groups_without_signal_are_rejected_and_off_policy_samples_never_counted():
    index = ["all", "all", "all", "none", "none", "none", "some", "some", "some"]
    solved = [True, True, True, True, False, False, True, True, False]
    on_policy = [False, True, True] * 3
    union = reject_groups(solved, index, on_policy, UNION)
    assert union.keep == [False] * 3 + [True] * 6
    on_policy_only = reject_groups(solved, index, on_policy, ON_POLICY_ONLY)
    assert on_policy_only.keep == [False] * 6 + [True] * 3
    counts = {"groups": 3.0, "solve_all": 1.0, "solve_none": 1.0, "solve_partial": 1.0}
    assert union.metrics == counts | {"rejected_groups": 1.0}
    assert on_policy_only.metrics == counts | {"rejected_groups": 2.0}


def test_a_single_outcome_is_no_evidence():
    assert reject_groups([True, False], ["a", "a"], [True, False], ON_POLICY_ONLY).keep == [True, True]
    assert reject_groups([], [], [], UNION).keep == []


def test_groups_of_one_score_carry_no_signal_and_only_full_scores_solve():
    index = ["same"] * 3 + ["apart"] * 3 + ["solved"] * 3
    scores = [0.5, 0.5, 0.5, 1.0, 0.25, 0.75, 0.5, 1.0, 1.0]
    on_policy = [False, True, True] * 3
    union = reject_groups(scores, index, on_policy, UNION)
    assert union.keep == [False] * 3 + [True] * 6
    assert union.metrics == {
        "groups": 3.0,
        "rejected_groups": 1.0,
        "solve_all": 1.0,
        "solve_none": 2.0,
        "solve_partial": 0.0,
    }
    assert reject_groups(scores, index, on_policy, ON_POLICY_ONLY).keep == [False] * 3 + [True] * 3 + [False] * 3


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.booleans()), max_size=12), st.randoms())
def test_rejection_does_not_depend_on_the_order(rows, order):
    def kept(of):
        columns = list(zip(*of, strict=True)) or [(), (), ()]
        return [row for row, keep in zip(of, reject_groups(*columns, ON_POLICY_ONLY).keep, strict=True) if keep]

    shuffled = rows[:]
    order.shuffle(shuffled)
    assert sorted(kept(rows)) == sorted(kept(shuffled))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([True], ["a", "b"], [True]), "index: expected 1 values, one for each outcome, got 2"),
        (([True], ["a"], []), "on_policy: expected 1 values"),
    ],
)
def test_bad_rejection_input_names_the_argument(arguments, words):
    with pytest.raises(ValueError, match=words):
        reject_groups(*arguments, UNION)
