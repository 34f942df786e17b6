"""The samples of a step, and the inputs of its update: advantages, correction weights and gates.

The targets join the samples before, in `training.verl_hooks.agent_loop`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from tensordict import TensorDict
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from grading.row_fields import PROBLEM
from training.algorithms.advantage import apply_prefix_weights, group_advantage, length_penalty
from training.algorithms.correction import rollout_correction
from training.algorithms.methods.distillation import teacher_advantage
from training.algorithms.methods.gate import group_gate
from training.algorithms.methods.srft import outcome_advantage
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.tensors import mask_of_prefix
from training.verl_hooks.metrics import staleness_metrics, token_metrics
from training.verl_hooks.reward import is_solved, reward_info

TARGET = "target"  # entry of a sample's extra fields: the id of the target that it starts with, "" for none
FIELDS: tuple[str, ...] = (
    "uid",
    "data_source",
    "extra_fields",
    "response_mask",
    "rm_scores",
    "old_log_probs",
    "rollout_log_probs",
    "entropy",
    "prefix_length",
    "requests",
    "rollout_versions",
)
# What the log of rollouts says of a sample beside its texts and score, with what stands for a sample that has none.
LOGGED: dict[str, int | str] = {"prefix_length": 0, "tokens": 0, "error": "", "problem": "", "solved": 0, "alone": 0}


def sample_of(key: str) -> tuple[str, int]:
    """Return prompt and number of a sample, whose key is "<prompt>_<sample>_<turn>"."""
    prompt, sample, _ = key.rsplit("_", 2)
    return prompt, int(sample)


def fields_of(options: MixedPolicyOptions, *, reference: bool, prompts: bool) -> list[str]:
    """The fields of samples that a step reads; ``reference``: has a reference policy; ``prompts``: by their keys."""
    optional = {
        "ref_log_prob": reference,
        "off_policy_log_probs": options.has_teacher_log_probs,
        "responses": options.replay.use,
        "guided": options.shows_prefix,
        "teacher_log_probs": options.distillation.use,
        "prompt_key": prompts,
    }
    return [*FIELDS, *(name for name, needed in optional.items() if needed)]


def fit_width(values: torch.Tensor, width: int) -> torch.Tensor:
    """``values`` cut or filled with zeros to ``[batch, width]``: verl's padding rows copy fields of another length."""
    return torch.nn.functional.pad(values[:, :width], (0, max(width - values.shape[1], 0)))


@dataclass(frozen=True, eq=False)
class Samples:
    """The rows of a batch, padded to one width: ``sampled`` says which are samples, the others fill it up for verl.

    ``rows["solved"]``: whether the verifier takes a sample for right.
    """

    rows: TensorDict
    index: np.ndarray  # the group of each row
    sampled: torch.Tensor
    sources: Sequence[str] = ()  # ``data_source`` of each row
    errors: Sequence[str] = ()  # why the verifier of each row failed; "" where it did not
    targets: Sequence[str] = ()  # the id of the target that each row starts with; "" for none
    numbers: Sequence[int] = ()  # of each row in its group
    problems: Sequence[str] = ()  # what each row asks

    @classmethod
    def of(cls, data: TensorDict, keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> Self:
        """Read the samples with these keys and tags from `fields_of` them; ``data`` keeps the tensors among these."""
        index = np.array(data.pop("uid").tolist(), dtype=object)
        sources = data.pop("data_source").tolist()
        extra = [getattr(of_sample, "data", of_sample) for of_sample in data.pop("extra_fields").tolist()]
        infos = [reward_info(of_sample) for of_sample in extra]
        rows = data.to_padded_tensor()
        scores = rows["rm_scores"].sum(-1).tolist()
        rows["solved"] = torch.tensor([is_solved(info, score) for info, score in zip(infos, scores, strict=True)])
        return cls(
            rows,
            index,
            sampled=torch.tensor([not tag.get("is_padding", False) for tag in tags]),
            sources=sources,
            errors=[info.get("error") or "" for info in infos],
            targets=[of_sample.get(TARGET, "") for of_sample in extra],
            numbers=[sample_of(key)[1] for key in keys],
            problems=[of_sample.get(PROBLEM, "") for of_sample in extra],
        )

    @cached_property
    def mask(self) -> torch.Tensor:
        return self.rows["response_mask"].bool()

    @cached_property
    def off_policy_mask(self) -> torch.Tensor:
        return mask_of_prefix(self.rows["prefix_length"], self.mask)

    @cached_property
    def guided(self) -> torch.Tensor:
        """Whether the prompt of a row shows the beginning of the target."""
        none = torch.zeros_like(self.rows["prefix_length"])
        return self.rows.get("guided", none) > 0

    @cached_property
    def on_policy(self) -> torch.Tensor:
        """Whether the policy sampled all of a row, and from the problem alone."""
        return (self.rows["prefix_length"] == 0) & ~self.guided

    @cached_property
    def baselines(self) -> np.ndarray:
        """The group of each row whose mean its score is compared with: one for each prompt that was asked."""
        if not self.guided.any():
            return self.index
        pairs = zip(self.index.tolist(), self.guided.tolist(), strict=True)
        return np.array([f"{group} {guided}" for group, guided in pairs], dtype=object)

    def own_samples(self, row: int) -> list[int]:
        """The rows of the group of ``row`` that the policy sampled alone."""
        of_group = torch.from_numpy(self.index == self.index[row])
        return (of_group & self.sampled & self.on_policy).nonzero().squeeze(-1).tolist()

    @cached_property
    def solved(self) -> torch.Tensor:
        return self.rows["solved"]

    def log_entries(self) -> list[dict[str, Any]]:
        """The entries of `LOGGED` of each row.

        They are its off-policy tokens, its response tokens, why its verifier failed, what it asks, whether it is right,
        and whether the policy sampled all of it from the problem alone.
        """
        rows = self.rows["prefix_length"], self.mask.sum(-1), self.solved.int(), self.on_policy.int()
        prefixes, tokens, solved, alone = (values.tolist() for values in rows)
        columns = prefixes, tokens, self.errors, self.problems, solved, alone
        return [dict(zip(LOGGED, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Advantages:
    """The inputs of an update, as ``fields`` of ``[batch, length]``, and the metrics of how they were computed."""

    fields: dict[str, torch.Tensor]
    metrics: dict[str, float]


def compute_advantages(
    samples: Samples, rewards: torch.Tensor, options: MixedPolicyOptions, limit: int, updates: int
) -> Advantages:
    """Compute the advantages of ``samples`` under ``options``.

    Args:
        rewards: token by token; those of the rows, less a penalty for drift from the reference where there is one.
        limit: of the tokens of a response.
        updates: before this step; `staleness_metrics` tells the age of a token by it.
    """
    rows, mask, off_policy_mask = samples.rows, samples.mask, samples.off_policy_mask
    metrics: dict[str, float] = {}
    scores = rewards.sum(-1)
    if options.length_penalty.use:
        penalty = length_penalty(mask.sum(-1), limit, options.length_penalty)
        generated = (mask & ~off_policy_mask).any(-1)  # nobody could have sampled a shorter target
        scores = scores + penalty * generated
        counted = penalty[samples.sampled & generated]
        metrics["reward/length_penalty"] = float(counted.mean()) if generated.any() else 0.0
    advantages = group_advantage(scores, samples.baselines, samples.on_policy, options).unsqueeze(-1) * mask
    advantages = apply_prefix_weights(advantages, off_policy_mask, options.prefix)
    weights, _, correction_metrics = rollout_correction(
        rows["old_log_probs"], rows["rollout_log_probs"], mask, off_policy_mask, options.rollout_correction
    )
    metrics |= {f"rollout_correction/{name}": value for name, value in correction_metrics.items()}
    metrics |= token_metrics(rows["entropy"], mask, off_policy_mask)
    if options.srft.use:
        outcomes = outcome_advantage(samples.solved, options.srft)
        advantages = torch.where(off_policy_mask, advantages, outcomes.unsqueeze(-1) * mask)
    if options.distillation.use:
        teacher, scored = fit_width(rows["teacher_log_probs"], mask.shape[1]), mask & ~off_policy_mask
        if not options.distillation.task_rewards:
            advantages = advantages * off_policy_mask
        advantages = advantages + teacher_advantage(rows["old_log_probs"], teacher, scored, options.distillation)
        if scored.any():
            metrics["distillation/kl"] = float((rows["old_log_probs"] - teacher)[scored].mean())
    ages = updates - fit_width(rows["rollout_versions"], mask.shape[1])
    drift = rows["old_log_probs"] - rows["rollout_log_probs"]
    metrics |= staleness_metrics(ages, mask & ~off_policy_mask, drift)

    fields = {"advantages": advantages, "returns": advantages, "rollout_is_weights": weights}
    if options.gate.type != "none":
        shares = group_gate(samples.solved.tolist(), samples.index.tolist(), samples.on_policy.tolist(), options.gate)
        policy, supervised = torch.tensor(shares).unsqueeze(-1).unbind(1)  # of each row: [batch, 1]
        fields["gate"] = torch.where(off_policy_mask, supervised, policy)
        metrics["groups/supervised"] = float(1.0 - policy[samples.sampled].mean())
    if options.has_teacher_log_probs:
        fields["off_policy_log_probs"] = fit_width(rows["off_policy_log_probs"], mask.shape[1])
    return Advantages(fields, metrics)


def order_of_updates(lengths: Sequence[int], ranks: int, rows: int) -> list[int]:
    """An order in which every rank has about as much to compute as the others in each update, not only in all of them.

    A rank takes its samples from the front, ``rows`` per update, and the others wait for the slowest.

    >>> order_of_updates([9, 8, 2, 1, 9, 1, 8, 2], ranks=2, rows=2)  # updates of 17 and 3 tokens, and of 10 twice
    [0, 3, 1, 2, 4, 5, 6, 7]

    Args:
        lengths: tokens of each sample; those of a rank are neighbours.
        ranks: that share the samples evenly.
        rows: samples of an update on each rank.
    """
    share = len(lengths) // ranks
    updates, work = share // rows, calculate_workload(torch.tensor(lengths))
    order: list[int] = []
    for first in range(0, len(lengths), share):
        of_rank = work[first : first + share].tolist()
        partitions: Any = get_seqlen_balanced_partitions(of_rank, k_partitions=updates, equal_size=True)
        for update in partitions:
            order += [first + row for row in update]
    return order
