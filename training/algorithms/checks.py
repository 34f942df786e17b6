"""Checks of tensor arguments: the message names the argument, what came and what is allowed."""

import torch


def require_tensor(name: str, value: object) -> torch.Tensor:
    """Return ``value`` when it is a tensor; a TypeError that names it otherwise."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    return value


def require_floating(name: str, value: object) -> torch.Tensor:
    """Return ``value`` when it is a floating-point tensor; a TypeError that names it and its dtype otherwise."""
    tensor = require_tensor(name, value)
    if not tensor.is_floating_point():
        raise TypeError(f"{name}: expected a floating-point tensor, got dtype {tensor.dtype}")
    return tensor


def require_shape(name: str, tensor: torch.Tensor, shape: torch.Size | tuple[int, ...], like: str) -> None:
    """Raise a ValueError unless ``tensor`` has ``shape``, the shape of the argument called ``like``."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name}: expected shape {list(shape)}, that of {like}, got {list(tensor.shape)}")


def require_matrix(name: str, tensor: torch.Tensor) -> None:
    """Raise a ValueError unless ``tensor`` is ``[batch, response_length]``."""
    if tensor.ndim != 2:
        raise ValueError(f"{name}: expected shape [batch, response_length], got {list(tensor.shape)}")


def as_mask(name: str, value: object) -> torch.Tensor:
    """Return a bool tensor from a bool or 0/1 tensor of any dtype; a TypeError when ``value`` is no tensor."""
    tensor = require_tensor(name, value)
    return tensor if tensor.dtype == torch.bool else tensor != 0


def working_precision(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` in float32 when it is in a half precision (gradients flow back in its own), else as it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
