"""Keeps the head of a model in the FSDP2 unit of the whole model, where fused kernels can read its weight.

A fused kernel multiplies with ``lm_head.weight`` and never calls ``lm_head``. verl 0.9.1 makes a head that is not tied
to the embedding a unit of its own, whose weight is whole only while it is called: the kernel would get a shard. The
unit of the whole model stays whole from the forward pass to the end of the backward pass.
verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn
from verl.utils import fsdp_utils

_with_head = fsdp_utils._select_fsdp2_wrap_targets


def units_without_head(model: Any, layers: Sequence[str]) -> list[nn.Module]:
    """Return the modules of ``model`` that become FSDP2 units of their own; ``layers`` are class names."""
    head = model.get_output_embeddings()
    return [module for module in _with_head(model, layers) if module is not head]


fsdp_utils._select_fsdp2_wrap_targets = units_without_head
