"""Updates of a few rows, as a worker computes them under the options of a method."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu

from training.algorithms.options import MixedPolicyOptions
from training.methods.method import RunValues
from training.methods.mixed import Mixed, stream_weights
from training.verl_hooks.loss import WEIGHTS, step_loss
from training.verl_hooks.metrics import update_counts


def mixed(options: MixedPolicyOptions, limit: int = 8, **values: Any) -> Mixed:
    """Return the method of ``options``."""
    return Mixed(run=RunValues(mixed=options, limit=limit, **values))


def update_loss(
    options: MixedPolicyOptions,
    output: dict[str, Tensor],
    data: dict[str, Any],
    lengths: Sequence[int],
    prefixes: Sequence[int],
    *,
    limit: int = 8,
    rows: Sequence[int] | None = None,
    gate: Sequence[float] | None = None,
    coefficients: dict[str, float] | None = None,
    entropy_coeff: float = 0.1,
    loss: str = "policy",
    **rest: Any,
) -> tuple[Tensor, dict[str, Any]]:
    """Return the share of the micro-batch ``rows`` in an update of rows of such ``lengths`` and ``prefixes``."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    off_policy = mask & (torch.arange(max(lengths)) < torch.tensor(prefixes)[:, None])
    gates = None if gate is None else torch.tensor(gate)[:, None].expand(mask.shape)
    weights, method = (
        stream_weights(options, mask, off_policy, gates),
        mixed(options, limit, entropy_coeff=entropy_coeff),
    )
    chosen = range(len(lengths)) if rows is None else rows
    fields = {
        f"{WEIGHTS}{name}": torch.nested.as_nested_tensor(
            [values[row, : lengths[row]].float() for row in chosen], layout=torch.jagged
        )
        for name, values in weights.items()
    }
    given = {"counts": update_counts(mask, weights, 1.0), "batch_num_tokens": int(mask.sum()), "dp_size": 1, **rest}
    given |= {"coefficients": method.coefficients(0) | (coefficients or {}), "loss": loss}
    return step_loss(method.losses(), limit, output, tu.get_tensordict({**data, **fields}, given))
