"""Every option of the section ``mixed``, changed alone, changes what is computed from the same batch."""

import functools
from typing import Any

import pytest
import torch

from training.algorithms.advantage import apply_prefix_weights, group_advantage, length_penalty
from training.algorithms.aggregate import BatchSize, agg_loss
from training.algorithms.correction import rollout_correction
from training.algorithms.group_rejection import reject_groups
from training.algorithms.methods.distillation import teacher_advantage
from training.algorithms.methods.exgrpo import ReplayStore, Trajectory
from training.algorithms.methods.gate import group_gate
from training.algorithms.methods.relift import UnsolvedPrompts
from training.algorithms.methods.sft import policy_weight, sft_coefficient, sft_token_loss
from training.algorithms.methods.srft import entropy_advantage, outcome_advantage, supervised_scale
from training.algorithms.mixed_loss import mixed_policy_token_loss
from training.algorithms.off_policy_schedule import OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.schedules.entropy import EntropyController
from training.algorithms.schedules.prefix import prefix_ratio
from training.algorithms.tensors import mask_of_prefix
from training.config.verl_keys import leaf_values
from training.methods.mixed import stream_weights

SRFT = {"on_policy_loss": "reinforce", "loss_remove_clip": True, "sft_multitask.use": True}
SAPO = {"on_policy_loss": "sapo", "loss_remove_clip": True}
# OPTION: the options it needs, its value there, another value.
CHANGES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "on_policy_loss": ({}, "ppo", "cispo"),
    "clip_upper_bound": ({}, None, 3.0),
    "loss_remove_clip": ({}, False, True),
    "sapo_tau_pos": (SAPO, 1.0, 2.0),
    "sapo_tau_neg": (SAPO, 1.05, 2.0),
    "on_policy_reshape": ({}, "no_reshape", "square_root"),
    "on_policy_reshape_weight": ({"on_policy_reshape": "p_logp"}, 1.0, 0.5),
    "on_policy_reshape_pow_exp": ({"on_policy_reshape": "pow"}, 0.5, 0.7),
    "use_off_policy_loss": ({}, True, False),
    "off_policy_reshape": ({}, "no_reshape", "p_div_p"),
    "off_policy_reshape_gamma": ({"off_policy_reshape": "p_div_p"}, 0.1, 0.5),
    "on_policy_reshape_gamma": ({"on_policy_reshape": "p_div_p"}, 0.1, 0.5),
    "off_policy_reshape_weight": ({"off_policy_reshape": "logp"}, 1.0, 0.5),
    "off_policy_reshape_pow_exp": ({"off_policy_reshape": "pow"}, 0.5, 0.7),
    "off_max_clip": ({}, None, 0.1),
    "off_min_clip": ({}, None, 0.6),
    "use_target_probs": ({}, False, True),
    "all_max_clip": ({}, None, 0.4),
    "baseline": ({}, "all_samples", "on_policy"),
    "use_std": ({}, False, True),
    "filter_on": ({}, "all_samples", "on_policy"),
    "loss_agg_mode": ({}, "token-mean", "constant"),
    "prefix.n_prefix": ({}, 1, 2),
    "prefix.strategy": ({"prefix.min": 0.0}, "fixed", "random"),
    "prefix.min": ({"prefix.strategy": "random"}, 0.0, 0.5),
    "prefix.max": ({"prefix.min": 0.0}, 1.0, 0.5),
    "prefix.steps": ({"prefix.strategy": "linear", "prefix.min": 0.0}, 300, 100),
    "prefix.share": ({"prefix.strategy": "random", "prefix.min": 0.0, "prefix.n_prefix": 2}, False, True),
    "prefix.std": ({"prefix.strategy": "linear_variance", "prefix.min": 0.0}, 0.1, 0.2),
    "prefix.alpha": ({}, 1.0, 0.5),
    "prefix.beta": ({}, 1.0, 0.5),
    "off_policy_schedule": ({}, "always", "until_solved"),
    "rollout_correction.type": ({}, "none", "tis"),
    "rollout_correction.low": ({"rollout_correction.type": "icepop"}, 0.5, 0.9),
    "rollout_correction.high": ({"rollout_correction.type": "icepop"}, 5.0, 1.1),
    "sft_multitask.use": ({}, False, True),
    "sft_multitask.coef": ({"sft_multitask.use": True}, 0.1, 0.2),
    "sft_multitask.weight": ({"sft_multitask.use": True}, "one", "p"),
    "sft_multitask.complement": ({"sft_multitask.use": True}, False, True),
    "sft_multitask.warmup_steps": ({"sft_multitask.use": True}, 0, 50),
    "sft_multitask.decay_steps": ({"sft_multitask.use": True}, 0, 50),
    "sft_multitask.valley": ({"sft_multitask.use": True, "sft_multitask.decay_steps": 50}, 0.0, 0.05),
    "gate.type": ({"sft_multitask.use": True, "use_off_policy_loss": False}, "none", "hard"),
    "gate.gamma": ({"sft_multitask.use": True, "use_off_policy_loss": False, "gate.type": "hard"}, 0, 1),
    "srft.use": (SRFT, False, True),
    "srft.sign": ({**SRFT, "srft.use": True}, "minus", "plus"),
    "srft.solved_weight": ({**SRFT, "srft.use": True}, 0.1, 0.2),
    "replay.use": ({}, False, True),
    "replay.share": ({"replay.use": True}, 0.5, 1.0),
    "replay.start": ({"replay.use": True}, 0.35, 0.6),
    "relift.use": ({}, False, True),
    "relift.buffer": ({"relift.use": True}, 1, 2),
    "length_penalty.use": ({}, False, True),
    "length_penalty.buffer": ({"length_penalty.use": True}, 0.8, 0.9),
    "length_penalty.factor": ({"length_penalty.use": True}, 0.5, 1.0),
    "distillation.use": ({}, False, True),
    "distillation.coef": ({"distillation.use": True}, 1.0, 0.5),
    "distillation.max_advantage": ({"distillation.use": True}, None, 0.1),
    "distillation.task_rewards": ({"distillation.use": True}, True, False),
    "distillation.sees_target": ({"distillation.use": True}, False, True),
    "prefix.place": ({"use_off_policy_loss": False}, "response", "prompt"),
    "regularize_on": ({}, "all_samples", "on_policy"),
    "skip_grad_norm": ({}, None, 80.0),
    "adaptive_entropy.use": ({}, False, True),
    "adaptive_entropy.target": ({"adaptive_entropy.use": True}, 0.5, 0.6),
    "adaptive_entropy.lr": ({"adaptive_entropy.use": True}, 0.05, 0.1),
    "adaptive_entropy.min": ({"adaptive_entropy.use": True}, 1e-5, 0.01),
    "adaptive_entropy.max": ({"adaptive_entropy.use": True}, 0.1, 0.0005),
}


def options(values: dict[str, Any]) -> MixedPolicyOptions:
    nested: dict[str, Any] = {"prefix": {"n_prefix": 0 if values.get("replay.use") else 1}}
    for key, value in values.items():
        *section, name = key.split(".")
        functools.reduce(lambda node, part: node.setdefault(part, {}), section, nested)[name] = value
    return MixedPolicyOptions(**nested)


def computed(chosen: MixedPolicyOptions) -> tuple[Any, ...]:
    """What a step computes from two groups of three samples, of three tokens each."""
    ratios = [
        prefix_ratio(chosen.prefix, step, sample_id=sample, n=3, prompt_id=prompt)
        for step in (0, 40, 90)
        for sample in range(3)
        for prompt in range(4)
    ]
    schedule = OffPolicySchedule(chosen.off_policy_schedule)
    schedule.solve([0, 0, 1, 1], [True, True, True, False], [False, True, False, True])
    off_policy = [schedule.applies(prompt) for prompt in (0, 1)]
    generator = torch.Generator().manual_seed(0)
    log_prob, old, rollout = (-3 * torch.rand(6, 3, generator=generator) for _ in range(3))
    log_prob[5] = old[5] + 0.5  # above the clip, in a sample with a positive advantage
    mask, index = torch.ones(6, 3, dtype=torch.bool), [0, 0, 0, 1, 1, 1]
    mask[2, 2] = False
    scores = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    on_policy = torch.tensor([False, True, True] * 2)
    off_policy_mask = mask_of_prefix(torch.tensor([3, 0, 0] * 2), mask)
    if chosen.length_penalty.use:
        scores = scores + length_penalty(mask.sum(-1), 3, chosen.length_penalty)
    advantages = group_advantage(scores, index, on_policy, chosen).unsqueeze(-1) * mask
    advantages = apply_prefix_weights(advantages, off_policy_mask, chosen.prefix)
    if chosen.distillation.use:
        scores_of_teacher = teacher_advantage(old, rollout, mask & ~off_policy_mask, chosen.distillation)
        advantages = advantages * (off_policy_mask | chosen.distillation.task_rewards) + scores_of_teacher
    entropies = torch.full((6, 1), 0.5)
    if chosen.srft.use:
        outcomes = outcome_advantage(scores == 1.0, chosen.srft).unsqueeze(-1)
        advantages = torch.where(off_policy_mask, advantages, outcomes * mask)
        advantages = entropy_advantage(advantages, off_policy_mask, entropies)
    weights, *_ = rollout_correction(old, rollout, mask, off_policy_mask, chosen.rollout_correction)
    phi = torch.full_like(log_prob, 0.5) if chosen.use_target_probs else None
    losses, _ = mixed_policy_token_loss(old, log_prob, advantages, mask, off_policy_mask, chosen, phi)
    tokens = int(mask.sum())
    size = BatchSize(tokens=tokens, sequences=6, batch_tokens=tokens, batch_sequences=6, response_length=10)
    solved = [score == 1.0 for score in scores.tolist()]
    gate = torch.tensor(group_gate(solved, index, on_policy.tolist(), chosen.gate))
    gate = torch.where(off_policy_mask, gate[:, 1:], gate[:, :1])
    loss = agg_loss(losses * weights * gate, mask, chosen.loss_agg_mode, size)
    if (supervised := chosen.sft_multitask).use:
        sft_losses = sft_token_loss(log_prob, off_policy_mask, supervised.weight) * gate
        if chosen.srft.use:
            sft_losses = sft_losses * supervised_scale(entropies, chosen.srft)
        for step in (0, 40, 90):
            coef = sft_coefficient(supervised, step)
            loss = loss + policy_weight(supervised, coef) * loss + coef * sft_losses.sum()
    entropy = EntropyController(chosen.adaptive_entropy, 0.001)
    coefficients = [entropy.update(value) for value in (0.2, 0.7)]
    kept = reject_groups(solved, index, on_policy.tolist(), chosen)
    unsolved = UnsolvedPrompts(chosen.relift.buffer)
    if chosen.relift.use:
        unsolved.add([False] * 6, index, on_policy.tolist())
    learned = unsolved.take()
    store = ReplayStore(chosen.replay, n=3)
    store.note_success(0.5)
    for prompt in range(4):
        store.add(prompt, 1, 3, [Trajectory([2], [-0.5])])
    replayed = store.draw(4, seed=0) if chosen.replay.use else []
    bonus = sorted(stream_weights(chosen, mask, off_policy_mask))
    worker = chosen.needs_policy_worker, chosen.skip_grad_norm
    prompts = learned, unsolved.prompts, replayed, chosen.shows_prefix, chosen.distillation.sees_target
    return ratios, off_policy, loss.item(), coefficients, kept, prompts, bonus, worker


def test_every_option_is_tried() -> None:
    present = set(dict(leaf_values(MixedPolicyOptions().model_dump(exclude={"clip_ratio"}))))
    assert present == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_every_option_of_the_algorithm_changes_what_is_computed(name: str) -> None:
    needed, value, other = CHANGES[name]
    assert computed(options({**needed, name: value})) != computed(options({**needed, name: other}))
