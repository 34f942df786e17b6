"""The samples of a step as verl stores them, and the order of a step's updates.

The targets join the samples before, in `training.verl_hooks.agent_loop`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from training.algorithms.samples import Samples
from training.verl_hooks.reward import is_solved, reward_info

PLAN = "plan"  # field of a prompt: how each of its samples starts (`training.methods.method.Start`)
OTHERS = "others"  # in it: what other rows of the problem have in the place of the row's target
TARGET_ID = "target_id"  # in a row with such a target: its id
TARGET = "target"  # entry of a sample's extra fields: the id of the target that it starts with, "" for none
EPISODE = "episode"  # likewise: the figures of an episode (`grading.tools.episode.Episode.record`)
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
# What the log of rollouts says about a sample besides its texts and score, with what stands for a sample that has none.
LOGGED: dict[str, int | str] = {"prefix_length": 0, "tokens": 0, "error": "", "cut": 0}


def sample_of(key: str) -> tuple[str, int]:
    """Return prompt and number of a sample with the key "<prompt>_<sample>_<turn>"."""
    prompt, sample, _ = key.rsplit("_", 2)
    return prompt, int(sample)


def samples_of(data: TensorDict, keys: Sequence[str], tags: Sequence[Mapping[str, Any]], limit: int) -> Samples:
    """Return the samples with these keys and tags from their fields; ``data`` keeps the tensors among these."""
    index = np.array(data.pop("uid").tolist(), dtype=object)
    sources = data.pop("data_source").tolist()
    extra = [getattr(of_sample, "data", of_sample) for of_sample in data.pop("extra_fields").tolist()]
    infos = [reward_info(of_sample) for of_sample in extra]
    rows = data.to_padded_tensor()
    scores = rows["rm_scores"].sum(-1).tolist()
    rows["solved"] = torch.tensor([is_solved(info, score) for info, score in zip(infos, scores, strict=True)])
    return Samples(
        rows,
        index,
        sampled=torch.tensor([not tag.get("is_padding", False) for tag in tags]),
        sources=sources,
        errors=[info.get("error") or "" for info in infos],
        targets=[of_sample.get(TARGET, "") for of_sample in extra],
        numbers=[sample_of(key)[1] for key in keys],
        episodes=[of_sample.get(EPISODE, {}) for of_sample in extra],
        limit=limit,
        rewards={
            name: torch.tensor([float(info.get(name, 0.0)) for info in infos])
            for name in dict.fromkeys(name for info in infos for name, value in info.items() if is_number(value))
        },
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def log_entries(samples: Samples) -> list[dict[str, Any]]:
    """The entries of `LOGGED` of each row of ``samples``.

    They are its off-policy tokens and all tokens of its turns, why its verifier failed, and whether it was cut.
    """
    prefixes, tokens = (values.sum(-1).tolist() for values in (samples.off_policy_mask, samples.mask))
    cut = [
        int(episode.get("truncated", length >= samples.limit))
        for episode, length in zip(samples.episodes or [{}] * len(tokens), tokens, strict=True)
    ]
    columns = prefixes, tokens, samples.errors, cut
    return [dict(zip(LOGGED, row, strict=True)) for row in zip(*columns, strict=True)]


def order_of_updates(lengths: Sequence[int], ranks: int, rows: int) -> list[int]:
    """An order in which every rank has about as much to compute as the others in each update, not only in all of them.

    A rank takes its samples from the front, ``rows`` per update, and the others wait for the slowest.

    >>> order_of_updates([9, 8, 2, 1, 9, 1, 8, 2], ranks=2, rows=2)  # updates of 17 and 3 tokens, and of 10 twice
    [0, 3, 1, 2, 4, 5, 6, 7]

    Args:
        lengths: tokens of each sample; a rank's samples are neighbours.
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
