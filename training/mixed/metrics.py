"""What a step reports, and the counts that its loss divides by. On- and off-policy tokens never enter one figure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from training.algorithms.options import GroupOptions
from training.algorithms.rejection import reject_groups


# verl reduces a metric over the updates of a batch by its name: with "max" or "min" in it, it takes the largest or
# smallest value. In capitals, no name of a pair has these.
def pair_of_sums(name: str, total: Any, count: Any) -> dict[str, Any]:
    """The entries of a mean over tokens: its sum and its count."""
    return {f"SUM:{name.upper()}": total, f"COUNT:{name.upper()}": count}


def mean_of_sums(metrics: dict[str, Any], prefix: str = "") -> None:
    """Replace each `pair_of_sums` of ``metrics``, under ``prefix``, by its mean; a mean over nothing is left out."""
    start = f"{prefix}SUM:"
    for name in [name for name in metrics if name.startswith(start)]:
        mean = name.removeprefix(start)
        total, count = metrics.pop(name), metrics.pop(f"{prefix}COUNT:{mean}")
        if count:
            metrics[f"{prefix}{mean.lower()}"] = total / count


def token_metrics(entropy: torch.Tensor, mask: torch.Tensor, off_policy_mask: torch.Tensor) -> dict[str, float]:
    """Generated tokens, and the entropies of on- and off-policy tokens; there is no entry for a mean over nothing."""
    on_policy_mask = mask & ~off_policy_mask
    metrics = {"batch/generated_tokens": float(on_policy_mask.sum())}
    for name, tokens in (("actor/entropy", on_policy_mask), ("actor/off_policy_entropy", off_policy_mask)):
        if tokens.any():
            metrics[name] = float(entropy[tokens].mean())
    return metrics


def update_counts(mask: torch.Tensor, off_policy_mask: torch.Tensor, share: float) -> dict[str, float]:
    """What the loss divides by: the batch's counts times the ``share`` of the batch that one update sees."""
    on_policy_mask = mask & ~off_policy_mask
    counts = {
        "sequences": mask.any(-1),
        "on_policy_sequences": on_policy_mask.any(-1),
        "on_policy_tokens": on_policy_mask,
        "off_policy_tokens": off_policy_mask,
    }
    return {name: share * int(counted.sum()) for name, counted in counts.items()}


def group_metrics(
    scores: torch.Tensor, index: np.ndarray, on_policy: torch.Tensor, options: GroupOptions
) -> dict[str, float]:
    """Rewards by where a sample came from; solve-all and solve-none never count off-policy samples."""
    sampled, off_policy = scores[on_policy], scores[~on_policy]
    metrics = {"batch/off_policy_samples": float(len(off_policy))}
    if len(sampled):
        metrics["reward/on_policy"] = float(sampled.mean())
        solved = (scores == 1.0).tolist()
        counts = reject_groups(solved, index.tolist(), on_policy.tolist(), options).metrics
        kinds = ("solve_all", "solve_none", "solve_partial")
        groups = sum(counts[kind] for kind in kinds)
        metrics |= {f"groups/{kind}": counts[kind] / groups for kind in kinds}
    if len(off_policy):
        metrics["reward/off_policy"] = float(off_policy.mean())
    return metrics


def validation_metrics(
    sources: Sequence[str], rewards: Sequence[float], expected: Mapping[tuple[str, str], int]
) -> dict[str, float]:
    """The mean reward of a validation's samples, over all and for each source where there are several.

    >>> validation_metrics(["a", "b"], [1.0, 0.0], {("a", "p"): 2, ("b", "q"): 1})  # a sample of a has failed
    {'validation/score': 0.3333333333333333, 'validation/a': 0.5, 'validation/b': 0.0}

    Args:
        sources: of each sample.
        expected: how many samples there should be, by source and prompt; one that failed scores 0.
    """
    totals, counts = defaultdict(float), Counter[str]()
    for source, reward in zip(sources, rewards, strict=True):
        totals[source] += reward
    for (source, _), count in expected.items():
        counts[source] += count
    score = {"validation/score": sum(totals.values()) / counts.total()}
    return score | ({f"validation/{name}": totals[name] / counts[name] for name in counts} if len(counts) > 1 else {})
