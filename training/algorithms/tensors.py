"""Check tensor arguments with messages that name the argument; convert masks and precision."""

from jaxtyping import Bool, Float, Int, Shaped

from training.later import Tensor, torch


def require_tensor(name: str, value: object) -> Tensor:
    """Return ``value`` when it is a tensor; a TypeError that names it otherwise."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    return value


def require_floating(name: str, value: object) -> Tensor:
    """Return ``value`` when it is a floating-point tensor; a TypeError that names it and its dtype otherwise."""
    tensor = require_tensor(name, value)
    if not tensor.is_floating_point():
        raise TypeError(f"{name}: expected a floating-point tensor, got dtype {tensor.dtype}")
    return tensor


def require_bool(name: str, value: object) -> Tensor:
    """Return ``value`` when it is a bool tensor; a TypeError that names it and its dtype otherwise."""
    tensor = require_tensor(name, value)
    if tensor.dtype != torch.bool:
        raise TypeError(f"{name}: expected dtype torch.bool, got {tensor.dtype}; use {name}.bool()")
    return tensor


def require_shape(name: str, tensor: Tensor, shape: tuple[int, ...], like: str) -> None:
    """Raise a ValueError unless ``tensor`` has ``shape``, the shape of the argument called ``like``."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name}: expected shape {list(shape)}, that of {like}, got {list(tensor.shape)}")


def require_matrix(name: str, tensor: Tensor) -> None:
    """Raise a ValueError unless ``tensor`` is ``[batch, response_length]``."""
    if tensor.ndim != 2:
        raise ValueError(f"{name}: expected shape [batch, response_length], got {list(tensor.shape)}")


def as_mask(name: str, value: object) -> Bool[Tensor, "..."]:
    """Return a bool tensor from a bool or 0/1 tensor of any dtype; a TypeError when ``value`` is no tensor."""
    tensor = require_tensor(name, value)
    return tensor if tensor.dtype == torch.bool else tensor != 0


def working_precision(tensor: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``tensor`` in float32 when it is in a half precision (gradients flow back in its own), else as it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def mask_of_prefix(
    prefix_length: Int[Tensor, " batch"], response_mask: Shaped[Tensor, "batch length"]
) -> Bool[Tensor, "batch length"]:
    """Return the ``off_policy_mask`` of responses that start with ``prefix_length`` off-policy tokens.

    >>> mask_of_prefix(torch.tensor([2, 0]), torch.tensor([[1, 1, 1], [1, 1, 0]])).int()
    tensor([[1, 1, 0],
            [0, 0, 0]], dtype=torch.int32)

    Args:
        prefix_length: 0 for an on-policy row.
        response_mask: bool or 0/1, valid tokens, left-aligned.

    Returns:
        The valid tokens at positions below ``prefix_length``.

    Raises:
        ValueError: another shape.
    """
    valid = as_mask("response_mask", response_mask)
    require_matrix("response_mask", valid)
    lengths = require_tensor("prefix_length", prefix_length)
    require_shape("prefix_length", lengths, valid.shape[:1], "a row of response_mask")
    return valid & (torch.arange(valid.shape[1], device=valid.device) < lengths.unsqueeze(-1))


def fit_width(values: Tensor, width: int) -> Tensor:
    """``values`` cut or filled with zeros to ``[batch, width]``: verl's padding rows copy fields of another length."""
    return torch.nn.functional.pad(values[:, :width], (0, max(width - values.shape[1], 0)))
