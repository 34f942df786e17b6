"""Updates of a few rows, as a worker computes them for a method."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from training.algorithms.samples import Samples
from training.methods.on_policy import OnPolicy
from training.verl_hooks.loss import WEIGHTS, step_loss
from training.verl_hooks.metrics import update_counts


def rows_of(lengths: Sequence[int], prefixes: Sequence[int], solved: Sequence[bool] | None = None) -> Samples:
    """Return samples of such ``lengths`` and ``prefixes``; two make a group."""
    rows = {
        "response_mask": torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
        "prefix_length": torch.tensor(prefixes),
        "solved": torch.tensor([False] * len(lengths) if solved is None else solved),
    }
    total = len(lengths)
    return Samples(TensorDict(rows, batch_size=total), np.arange(total) // 2, torch.ones(total, dtype=torch.bool))


def update_loss(
    method: OnPolicy,
    output: dict[str, Tensor],
    data: dict[str, Any],
    lengths: Sequence[int],
    prefixes: Sequence[int],
    *,
    limit: int = 8,
    rows: Sequence[int] | None = None,
    solved: Sequence[bool] | None = None,
    coefficients: dict[str, float] | None = None,
    entropy_coeff: float = 0.1,
    loss: str = "policy",
    **rest: Any,
) -> tuple[Tensor, dict[str, Any]]:
    """Return the share of the micro-batch ``rows`` in an update of rows of such ``lengths`` and ``prefixes``."""
    samples = rows_of(lengths, prefixes, solved)
    mask, weights = samples.mask, method.weights(samples, {})
    chosen = range(len(lengths)) if rows is None else rows
    fields = {
        f"{WEIGHTS}{name}": torch.nested.as_nested_tensor(
            [values[row, : lengths[row]].float() for row in chosen], layout=torch.jagged
        )
        for name, values in weights.items()
    }
    given = {"counts": update_counts(mask, weights, 1.0), "batch_num_tokens": int(mask.sum()), "dp_size": 1, **rest}
    of_step = method.coefficients(0) | {"entropy_loss": -entropy_coeff}
    given |= {"coefficients": of_step | (coefficients or {}), "loss": loss}
    return step_loss(method.losses(), limit, output, tu.get_tensordict({**data, **fields}, given))
