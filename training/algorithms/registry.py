"""The names that a recipe can choose, and the function behind each name.

To add a loss, write it in a module of this package and add its line to ``LOSSES``: every recipe can then say
``mixed: {loss: NAME}``. The other tables work alike. A function is imported on first use, so that options are validated
without torch.
"""

from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import Any

from core.text.patterns import compile_full_match


class Registry(dict[str, str]):
    """Name -> ``module:function``."""

    def function(self, name: str) -> Callable[..., Any]:
        """The function registered as ``name``; a ValueError that lists the names for any other."""
        return _resolve(self[self.require(name)])

    def require(self, name: str) -> str:
        """Return ``name`` if it is registered; a ValueError that lists the names otherwise."""
        if name not in self:
            raise ValueError(f"got {name!r}, expected one of {', '.join(self)}")
        return name


@cache
def _resolve(target: str) -> Callable[..., Any]:
    return resolve_name(target)


# (old_log_prob, log_prob, advantages, response_mask, off_policy_mask, options: LossOptions) -> (losses, stats)
LOSSES = Registry(mixed_policy="training.algorithms.mixed_loss:mixed_policy_token_loss")
# (log_prob, old_log_prob, loss_per_ratio, on_policy, options: LossOptions) -> (losses, clipped)
ON_POLICY_LOSSES = Registry(
    ppo="training.algorithms.methods.on_policy:ppo",
    cispo="training.algorithms.methods.on_policy:cispo",
    gspo="training.algorithms.methods.on_policy:gspo",
    reinforce="training.algorithms.methods.on_policy:reinforce",
)
# (log_prob) -> weight of each token in the supervised loss
SFT_WEIGHTS = Registry(
    {
        "one": "training.algorithms.methods.sft:one",
        "p": "training.algorithms.methods.sft:probability",
        "p(1-p)": "training.algorithms.methods.sft:uncertainty",
        "luffy": "training.algorithms.methods.sft:luffy",
    }
)
# (successes, n, options: GateOptions) -> Weights of a prompt's policy loss and supervised loss
GATES = Registry(
    none="training.algorithms.methods.gate:none",
    hard="training.algorithms.methods.gate:hard",
    soft="training.algorithms.methods.gate:soft",
)
# (losses, response_mask, size: BatchSize) -> (sum, divisor)
LOSS_AGG_MODES = Registry(
    {
        "token-mean": "training.algorithms.aggregate:token_mean",
        "seq-mean-token-mean": "training.algorithms.aggregate:seq_mean_token_mean",
        "seq-mean-token-sum": "training.algorithms.aggregate:seq_mean_token_sum",
        "constant": "training.algorithms.aggregate:constant",
        "seq64-mean-token-sum-norm": "training.algorithms.aggregate:seq64_mean_token_sum_norm",
        "seq64-mean-token-sum-norm-occupied": "training.algorithms.aggregate:seq64_mean_token_sum_norm",
        "published": "training.algorithms.aggregate:published",
    }
)
# The modes of LOSS_AGG_MODES that reduce means over tokens (entropy, KL, supervised loss) in another way.
MEAN_AGG_MODES = Registry(
    {
        "seq64-mean-token-sum-norm": "training.algorithms.aggregate:seq64_token_mean",
        "seq64-mean-token-sum-norm-occupied": "training.algorithms.aggregate:seq64_occupied_mean",
        "published": "training.algorithms.aggregate:published_mean",
    }
)
# (mismatch: Mismatch, options: RolloutCorrectionOptions) -> (weights, keep)
CORRECTIONS = Registry(
    {
        "none": "training.algorithms.correction:keep_all",
        "tis": "training.algorithms.correction:tis",
        "icepop": "training.algorithms.correction:icepop",
        "seq-mask-tis": "training.algorithms.correction:seq_mask_tis",
        "reinforce_pro": "training.algorithms.correction:reinforce_pro",
    }
)
# (options: PrefixOptions, sample: Sample) -> ratio
PREFIX_STRATEGIES = Registry(
    random="training.algorithms.schedules.prefix:random",
    linear="training.algorithms.schedules.prefix:linear",
    linear_max="training.algorithms.schedules.prefix:linear_max",
    linear_variance="training.algorithms.schedules.prefix:linear_variance",
    reverse_linear="training.algorithms.schedules.prefix:reverse_linear",
    binomial="training.algorithms.schedules.prefix:binomial",
    fixed="training.algorithms.schedules.prefix:fixed",
)
# (log_ratio, shape: Shape) -> shaped ratio
RESHAPES = Registry(
    no_reshape="training.algorithms.reshape:no_reshape",
    logp="training.algorithms.reshape:logp",
    p_logp="training.algorithms.reshape:p_logp",
    square_root="training.algorithms.reshape:square_root",
    pow="training.algorithms.reshape:power",
    p_div_p="training.algorithms.reshape:p_div_p",
)

GAMMA = 0.1  # of the shaping p / (p + gamma), as LUFFY publishes it
_NUMBER = compile_full_match(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")


def gamma_of(reshape: object) -> float | None:
    """The gamma in the original's spelling ``p_div_p_GAMMA`` of the shaping function ``p_div_p``; None in any other.

    >>> gamma_of("p_div_p_0.1"), gamma_of("p_div_p"), gamma_of("p_div_p_0")
    (0.1, None, None)
    """
    if not isinstance(reshape, str) or not reshape.startswith("p_div_p_"):
        return None
    number = reshape.removeprefix("p_div_p_")
    return float(number) if _NUMBER(number) and 0.0 < float(number) < float("inf") else None
