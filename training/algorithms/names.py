"""Names that options and functions share. No torch: the orchestration interpreter validates with it."""

import re
from typing import Literal, NamedTuple

BASELINES = ("union", "on_policy")
CORRECTIONS = ("none", "tis", "icepop", "seq-mask-tis", "reinforce_pro")
NORMALISERS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "constant")
PREFIX_STRATEGIES = ("random", "linear", "linear_max", "linear_variance", "reverse_linear", "fixed")
RESHAPES = ("no_reshape", "logp", "p_logp", "square_root", "pow", "p_div_p_G")

Baseline = Literal["union", "on_policy"]
Correction = Literal["none", "tis", "icepop", "seq-mask-tis", "reinforce_pro"]
Normaliser = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "constant"]
PrefixStrategy = Literal["random", "linear", "linear_max", "linear_variance", "reverse_linear", "fixed"]

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")


class Reshape(NamedTuple):
    """A parsed reshape: ``kind`` is a name of ``RESHAPES`` (``p_div_p`` for ``p_div_p_G``), ``gamma`` its G, else 0."""

    kind: str
    gamma: float


def parse_reshape(reshape: "str | Reshape", argument: str = "reshape") -> Reshape:
    """Parse the name of a policy shaping function.

    Raises:
        ValueError: the name is unknown or its G is not a positive finite number; the message lists the names.
    """
    if isinstance(reshape, Reshape):
        return reshape
    if isinstance(reshape, str):
        if reshape in RESHAPES and reshape != "p_div_p_G":
            return Reshape(reshape, 0.0)
        number = reshape.removeprefix("p_div_p_")
        if number != reshape and _NUMBER.fullmatch(number) and 0.0 < float(number) < float("inf"):
            return Reshape("p_div_p", float(number))
    raise ValueError(
        f"Invalid {argument}: {reshape!r}. Allowed: {', '.join(RESHAPES[:-1])}, or p_div_p_G with a number G > 0, "
        "for example p_div_p_0.1"
    )


def require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise a ValueError that lists ``allowed`` unless ``value`` is one of them."""
    if value not in allowed:
        raise ValueError(f"{name}: got {value!r}, expected one of {', '.join(allowed)}")
