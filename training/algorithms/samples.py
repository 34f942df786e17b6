"""The samples of a step, and what an update learns from them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from core.errors import InputError
from training.algorithms.replay import Trajectory
from training.algorithms.tensors import mask_of_prefix
from training.later import Tensor, torch

if TYPE_CHECKING:
    from tensordict import TensorDict


@dataclass(frozen=True, eq=False)
class Samples:
    """The rows of a batch, padded to one width: ``sampled`` says which are samples, the others fill it up for verl.

    ``rows["solved"]``: whether the verifier takes a sample for right.
    """

    rows: "TensorDict"
    index: np.ndarray  # the group of each row
    sampled: Tensor
    sources: Sequence[str] = ()  # ``data_source`` of each row
    errors: Sequence[str] = ()  # why the verifier of each row failed; "" where it did not
    targets: Sequence[str] = ()  # the id of the target that each row starts with; "" for none
    numbers: Sequence[int] = ()  # of each row in its group
    episodes: Sequence[Mapping[str, float]] = ()  # figures of each row; empty without tools
    limit: int = 0  # of the tokens of a response
    rewards: Mapping[str, Tensor] = field(default_factory=dict)  # what the reward function returned, by name

    @cached_property
    def mask(self) -> Tensor:
        return self.rows["response_mask"].bool()

    @cached_property
    def off_policy_mask(self) -> Tensor:
        return mask_of_prefix(self.rows["prefix_length"], self.mask)

    @cached_property
    def guided(self) -> Tensor:
        """Whether the prompt of a row shows the beginning of the target."""
        none = torch.zeros_like(self.rows["prefix_length"])
        return self.rows.get("guided", none) > 0

    @cached_property
    def on_policy(self) -> Tensor:
        """Whether the policy sampled all of a row, and from the problem alone."""
        return (self.rows["prefix_length"] == 0) & ~self.guided

    @cached_property
    def baselines(self) -> np.ndarray:
        """The group of each row, with the mean that its score is compared with: one for each prompt that was asked."""
        if not self.guided.any():
            return self.index
        pairs = zip(self.index.tolist(), self.guided.tolist(), strict=True)
        return np.array([f"{group} {guided}" for group, guided in pairs], dtype=object)

    def groups(self) -> list[list[int]]:
        """The rows of the samples of each group, in their order."""
        groups: dict[Hashable, list[int]] = {}
        index = list(self.index)
        for row in self.sampled.nonzero().squeeze(-1).tolist():
            groups.setdefault(index[row], []).append(row)
        return list(groups.values())

    def trajectory(self, row: int) -> Trajectory:
        """The tokens of a response, with their log-probabilities under the policy at the start of the step."""
        end = int(self.mask[row].nonzero().max()) + 1  # a response never ends on an observation
        tokens, log_probs = (self.rows[name][row, :end].tolist() for name in ("responses", "old_log_probs"))
        return Trajectory(tokens, log_probs, self.mask[row, :end].int().tolist())

    def own_samples(self, row: int) -> list[int]:
        """The rows of the group of ``row`` that the policy sampled alone."""
        of_group = torch.from_numpy(self.index == self.index[row])
        return (of_group & self.sampled & self.on_policy).nonzero().squeeze(-1).tolist()

    def mean_reward(self, name: str) -> float:
        """Return the mean of one of several rewards over the on-policy samples.

        Raises:
            InputError: the reward function returns no number of this name.
        """
        if name not in self.rewards:
            raise InputError(
                f"method.advantage.rewards.{name}: the reward function returns no such number, but "
                f"{', '.join(self.rewards)}: take one of these, or a verifier that returns it"
            )
        own = self.rewards[name][self.sampled & self.on_policy]
        return float(own.mean()) if len(own) else 0.0

    @cached_property
    def solved(self) -> Tensor:
        return self.rows["solved"]


@dataclass(frozen=True, eq=False)
class Signal:
    """The inputs of an update, and the metrics of how they were computed.

    Args:
        ratio_weights: of the rollout correction: a token of weight 0 stays in the divisor of its term.
        weights: by stream, of the tokens in a term: one of weight 0 is no part of it. A stream that is absent has all
            tokens. "kept" says which tokens count at all.
        coefficients: of the terms, by the names of their metrics.
        loss: which of the method's losses the update has.
        skip_grad_norm: an update with a larger gradient norm is left out.
    """

    advantages: Float[Tensor, "batch length"]
    ratio_weights: Float[Tensor, "batch length"]
    weights: dict[str, Float[Tensor, "batch length"]] = field(default_factory=dict)
    coefficients: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    loss: str = "policy"
    skip_grad_norm: float | None = None
