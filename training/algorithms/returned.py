"""What the functions of `training.algorithms.registry` return. A user's function is checked at each call. No torch."""

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple


class Returned(NamedTuple):
    """What a function returns.

    Args:
        text: what it is, after "expected".
        accepts: whether a result fits the arguments of its call.
    """

    text: str
    accepts: Callable[[Any, Sequence[Any]], bool]


def described(value: Any) -> str:
    """Describe ``value`` in a few words.

    >>> described((1.0, None)), described({"a": 1}), described(object())
    ('(1.0, None)', "{'a': 1}", 'a value of type object')
    """
    if is_tensor(value):
        return f"a tensor of shape {list(value.shape)} and {value.dtype}"
    if isinstance(value, tuple):
        return f"({', '.join(described(part) for part in value)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {described(part)}' for name, part in value.items())}}}"
    if value is None or isinstance(value, str | Real):
        return f"{value!r:.80}"
    return f"a value of type {type(value).__name__}"


def versions(names: Sequence[str], arguments: Sequence[Any]) -> dict[str, int]:
    """Map each tensor among the arguments, and among their attributes, to how often it has been changed in place."""
    given = dict(zip(names, arguments, strict=False))
    parts = {f"{name}.{part}": value for name in given for part, value in getattr(given[name], "__dict__", {}).items()}
    tensors = {name: value for name, value in {**given, **parts}.items() if is_tensor(value)}
    return {name: tensor._version for name, tensor in tensors.items() if not tensor.is_inference()}


def is_tensor(value: Any) -> bool:
    return hasattr(value, "is_inference")  # torch is not imported where options are validated


def is_like(value: Any, tensor: Any) -> bool:
    return is_tensor(value) and value.shape == tensor.shape


def is_scalar(value: Any) -> bool:
    return is_tensor(value) and value.ndim == 0


def is_weight(value: Any) -> bool:
    """Return whether ``value`` is a finite number from 0 on: of Python, of numpy, or a tensor without dimensions."""
    return (isinstance(value, Real) or is_scalar(value)) and 0.0 <= float(value) < math.inf


def is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _losses_and_stats(result: Any, arguments: Sequence[Any]) -> bool:
    return (
        is_pair(result)
        and is_like(result[0], arguments[1])
        and isinstance(result[1], Mapping)
        and all(
            isinstance(name, str) and is_pair(pair) and all(map(is_scalar, pair)) for name, pair in result[1].items()
        )
    )


def _losses_and_clipped(result: Any, arguments: Sequence[Any]) -> bool:
    return (
        is_pair(result) and is_like(result[0], arguments[0]) and (result[1] is None or is_like(result[1], arguments[0]))
    )


def _weights_and_kept(result: Any, arguments: Sequence[Any]) -> bool:
    shape = arguments[0].log_ratio
    if not (is_pair(result) and all(is_like(part, shape) for part in result)):
        return False
    weights, kept = result
    return kept.dtype == arguments[0].on_policy.dtype and bool(((weights >= 0) & (weights < math.inf)).all())


def _sum_and_divisor(result: Any, arguments: Sequence[Any]) -> bool:
    return is_pair(result) and is_scalar(result[0]) and (isinstance(result[1], Real) or is_scalar(result[1]))


ANYTHING = Returned("anything", lambda result, arguments: True)
LIKE_FIRST = Returned("a tensor of the shape of its first argument", lambda result, given: is_like(result, given[0]))
LOSSES_AND_STATS = Returned(
    "losses of the shape of log_prob, and {name: (sum, count)} of tensors with one number and no dimension",
    _losses_and_stats,
)
LOSSES_AND_CLIPPED = Returned(
    "losses of the shape of log_prob, and which tokens were clipped, of the same shape, or None", _losses_and_clipped
)
TWO_WEIGHTS = Returned(
    "the weights of a prompt's policy loss and supervised loss, two finite numbers from 0 on",
    lambda result, given: is_pair(result) and all(map(is_weight, result)),
)
SUM_AND_DIVISOR = Returned("a sum, a tensor of one number, and its divisor", _sum_and_divisor)
WEIGHTS_AND_KEPT = Returned(
    "the weights of the tokens, finite and from 0 on, and whether each is kept (bool), both of the shape of "
    "mismatch.log_ratio",
    _weights_and_kept,
)
SHARE = Returned(
    "the share of the target that a sample starts with, a number from 0 to 1",
    lambda result, given: is_weight(result) and result <= 1,
)
