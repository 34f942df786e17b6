"""The metrics of a step, and the counts for its loss. On- and off-policy tokens never enter one metric."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from core.metric_table import (
    SOURCE_REWARD,
    SOURCE_SOLVED,
    SOURCE_VALIDATION,
    VALIDATION_SCORE,
)
from training.algorithms.groups import outcomes_by_group
from training.algorithms.samples import Samples
from training.algorithms.tensors import fit_width


def batch_metrics(samples: Samples, updates: int) -> dict[str, float]:
    """Return the metrics of the tokens and of the episodes of a batch; ``updates``: those before its step."""
    rows = samples.rows
    mask = samples.mask
    off_policy = samples.off_policy_mask
    ages = updates - fit_width(rows["rollout_versions"], mask.shape[1])
    drift = rows["old_log_probs"] - rows["rollout_log_probs"]
    of_tokens = token_metrics(rows["entropy"], mask, off_policy)
    return of_tokens | staleness_metrics(ages, mask & ~off_policy, drift) | episode_metrics(samples)


def episode_metrics(samples: Samples) -> dict[str, float]:
    """Return the means of the figures of episodes: of those that the policy sampled alone, and of the others."""
    means: dict[str, float] = {}
    for prefix, chosen in (("", samples.on_policy), ("off_policy_", ~samples.on_policy)):
        rows = (chosen & samples.sampled).nonzero().squeeze(-1).tolist()
        episodes = [samples.episodes[row] for row in rows if samples.episodes and samples.episodes[row]]
        names = episodes[0] if episodes else ()
        means |= {f"episode/{prefix}{name}": sum(one[name] for one in episodes) / len(episodes) for name in names}
    return means


def token_metrics(entropy: torch.Tensor, mask: torch.Tensor, off_policy_mask: torch.Tensor) -> dict[str, float]:
    """Return the numbers and the entropies of on- and off-policy tokens; there is no entry for a mean over nothing."""
    on_policy_mask = mask & ~off_policy_mask
    counts = {
        "batch/generated_tokens": on_policy_mask,
        "batch/off_policy_tokens": off_policy_mask,
    }
    metrics = {name: float(tokens.sum()) for name, tokens in counts.items()}
    for name, tokens in (
        ("actor/entropy", on_policy_mask),
        ("actor/off_policy_entropy", off_policy_mask),
    ):
        if tokens.any():
            metrics[name] = float(entropy[tokens].float().mean())  # the fused kernel returns bfloat16
    return metrics


def staleness_metrics(ages: torch.Tensor, on_policy: torch.Tensor, log_ratio: torch.Tensor) -> dict[str, float]:
    """Return how old the weights were that sampled the ``on_policy`` tokens, and the drift of tokens of each age.

    ``staleness/mean`` and ``staleness/max`` are over tokens, ``staleness/partial_share`` is the share of the samples
    with tokens of several versions, and ``drift/age_K`` the mean ``|log w|`` of the tokens of age K.

    >>> ages, on_policy = torch.tensor([[1, 0], [0, 7]]), torch.tensor([[True, True], [True, False]])
    >>> metrics = staleness_metrics(ages, on_policy, torch.tensor([[-0.5, 0.1], [0.3, 9.0]]))
    >>> {name: round(value, 2) for name, value in metrics.items() if name.startswith("staleness")}
    {'staleness/mean': 0.33, 'staleness/max': 1.0, 'staleness/partial_share': 0.5}
    >>> round(metrics["drift/age_0"], 2), round(metrics["drift/age_1"], 2)
    (0.2, 0.5)

    Args:
        ages: updates between the weights that sampled a token and those that the step starts from.
        on_policy: the tokens that count; the others have no age.
        log_ratio: Log-ratio of the actor and vLLM.
    """
    if not on_policy.any():
        return {}
    counted = ages[on_policy]
    oldest = ages.where(on_policy, -1).amax(-1)
    newest = ages.where(on_policy, int(counted.max())).amin(-1)
    rows = on_policy.any(-1)
    metrics = {
        "staleness/mean": float(counted.float().mean()),
        "staleness/max": float(counted.max()),
        "staleness/partial_share": float((oldest > newest)[rows].float().mean()),
    }
    drift = log_ratio.abs()[on_policy]
    return metrics | {f"drift/age_{age}": float(drift[counted == age].mean()) for age in counted.unique().tolist()}


def update_counts(
    mask: torch.Tensor, weights: Mapping[str, torch.Tensor], share: float
) -> dict[str, tuple[float, float]]:
    """Return the tokens and rows of each stream in a batch, times the ``share`` of it that one update sees.

    >>> mask, off_policy = torch.tensor([[True, True], [True, False]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    >>> update_counts(mask, {"imitation": off_policy}, 0.5)
    {'valid': (1.5, 1.0), 'imitation': (1.0, 0.5)}

    Args:
        weights: the tokens' by stream (`training.algorithms.samples.Signal`).
    """
    counted = {
        "valid": mask,
        **{name: mask & (values != 0) for name, values in weights.items()},
    }
    return {name: (share * int(tokens.sum()), share * int(tokens.any(-1).sum())) for name, tokens in counted.items()}


def source_metrics(
    sources: Sequence[str],
    scores: torch.Tensor,
    solved: torch.Tensor,
    index: np.ndarray,
    on_policy: torch.Tensor,
) -> dict[str, float]:
    """Return the mean reward of on-policy samples of each source, and the share of its groups that one of them solves.

    >>> scores, on_policy = torch.tensor([1.0, 0.5, 0.25, 0.25]), torch.tensor([True, True, True, False])
    >>> source_metrics(["a", "a", "b", "b"], scores, scores == 1, np.array([7, 7, 8, 8]), on_policy)
    {'reward/source/a': 0.75, 'solved/source/a': 1.0, 'reward/source/b': 0.25, 'solved/source/b': 0.0}
    """
    rewards = defaultdict[str, list[float]](list)
    groups = defaultdict[str, dict[Any, bool]](dict)
    rows = zip(
        sources,
        scores.tolist(),
        solved.tolist(),
        index.tolist(),
        on_policy.tolist(),
        strict=True,
    )
    for source, score, right, group, sampled in rows:
        if sampled:
            rewards[source].append(score)
            groups[source][group] = groups[source].get(group, False) or right
    metrics: dict[str, float] = {}
    for source in sorted(rewards):
        metrics[f"{SOURCE_REWARD}{source}"] = sum(rewards[source]) / len(rewards[source])
        metrics[f"{SOURCE_SOLVED}{source}"] = sum(groups[source].values()) / len(groups[source])
    return metrics


def group_metrics(
    scores: torch.Tensor, solved: torch.Tensor, index: np.ndarray, on_policy: torch.Tensor
) -> dict[str, float]:
    """Count prompts with off-policy samples, and average rewards by where a sample came from.

    Solve-all and solve-none never count off-policy samples.
    """
    sampled, off_policy = scores[on_policy], scores[~on_policy]
    off_policy_prompts = float(len(set(index[~on_policy.numpy()])))
    metrics = {
        "batch/off_policy_samples": float(len(off_policy)),
        "batch/off_policy_prompts": off_policy_prompts,
    }
    metrics["groups/off_policy"] = off_policy_prompts / len(set(index))
    if len(sampled):
        metrics["reward/on_policy"] = float(sampled.mean())
        _, outcomes = outcomes_by_group(solved.tolist(), index.tolist(), on_policy.tolist())
        groups = [set(own) for own in outcomes.values() if own]
        kinds = {"solve_all": {True}, "solve_none": {False}, "solve_partial": {True, False}}
        metrics |= {f"groups/{kind}": groups.count(of) / len(groups) for kind, of in kinds.items()}
    if len(off_policy):
        metrics["reward/off_policy"] = float(off_policy.mean())
    return metrics


class Outcomes:
    """The outcomes of a step's samples, which verl draws in several mini-batches."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, ...]] = []

    def add(self, sources: Sequence[str], *samples: Any) -> None:
        """Add the samples of a mini-batch: their sources, and the first arguments of `group_metrics`."""
        self._parts.append((sources, *samples))

    def metrics(self, *, by_source: bool) -> dict[str, float]:
        """Return `group_metrics` over all samples, and `source_metrics` where it is ``by_source``."""
        sources, scores, solved, index, on_policy = zip(*self._parts, strict=True)
        whole = (
            torch.cat(scores),
            torch.cat(solved),
            np.concatenate(index),
            torch.cat(on_policy),
        )
        metrics = group_metrics(*whole)
        return metrics | (source_metrics([*chain(*sources)], *whole) if by_source else {})


def validation_metrics(
    sources: Sequence[str],
    rewards: Sequence[float],
    expected: Mapping[tuple[str, str], int],
) -> dict[str, float]:
    """Return the mean reward of a validation's samples, over all and for each source where there are several.

    >>> validation_metrics(["a", "b"], [1.0, 0.0], {("a", "p"): 2, ("b", "q"): 1})  # a sample of a has failed
    {'validation/score': 0.3333333333333333, 'validation/source/a': 0.5, 'validation/source/b': 0.0}

    Args:
        sources: Source of each sample.
        expected: Expected number of samples by source and prompt; a missing sample scores 0.
    """
    totals, counts = defaultdict(float), Counter[str]()
    for source, reward in zip(sources, rewards, strict=True):
        totals[source] += reward
    for (source, _), count in expected.items():
        counts[source] += count
    score = {VALIDATION_SCORE: sum(totals.values()) / counts.total()}
    if len(counts) == 1:
        return score
    return score | {f"{SOURCE_VALIDATION}{name}": totals[name] / counts[name] for name in counts}
