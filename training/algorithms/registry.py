"""The names that a recipe can choose, and the function behind each name.

To add a loss, write it in a module of this package and add its line to ``LOSSES``: every recipe can then say
``mixed: {loss: NAME}``. The other tables work alike. A function outside the project needs no line: a recipe names it
as ``FILE.py:FUNCTION`` or ``package.module:FUNCTION``, or its package declares it as an entry point. A function is
imported on first use, so that options are validated without torch.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.plugins.config_files import entries, entry
from core.plugins.user_code import function_path, load_function, named_in_errors
from core.text.patterns import compile_full_match


class Registry(dict[str, str]):
    """Name -> ``module:function``.

    Args:
        group: The group of entry points by which packages add functions.
        arguments: the names of what a function is called with, in order.
    """

    def __init__(
        self,
        group: str,
        arguments: str,
        names: Mapping[str, str] | None = None,
        **more: str,
    ) -> None:
        super().__init__(names or {}, **more)
        self.group, self.arguments = group, arguments.split(", ")

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function that `find` gives for ``name``; the errors of one outside the project name it.

        A path is not looked up again: composing the configuration has found it, and a loss is asked for at each step.
        """
        if name in self:
            return load_function(self[name])
        return named_in_errors(name if ":" in name else self.find(name))

    def find(self, name: str, folder: Path | None = None) -> str:
        """Return ``module:function`` of a registered name, of an entry point or of a path.

        Args:
            folder: The folder from which the path of a file starts; by default the current folder.

        Raises:
            ValueError: it is none of these. The message lists the names.
        """
        if name in self:
            return self[name]
        if (found := self.outside(name, folder)) is None:
            names = ", ".join([*self, *entries(self.group)])
            raise ValueError(f"got {name!r}, expected one of {names}, or FILE.py:FUNCTION")
        return found

    def require(self, name: str) -> str:
        """Return ``name`` if `find` finds it; a ValueError that lists the names otherwise."""
        self.find(name)
        return name

    def outside(self, name: object, folder: Path | None = None) -> str | None:
        """Return ``module:function`` of an entry point or of a path; None for every other name."""
        if not isinstance(name, str) or name in self:
            return None
        return function_path(name, folder or Path.cwd()) if ":" in name else entry(self.group, name)


LOSSES = Registry(
    "luffy.losses",
    "old_log_prob, log_prob, advantages, response_mask, off_policy_mask, options",
    mixed_policy="training.algorithms.mixed_loss:mixed_policy_token_loss",
)
ON_POLICY_LOSSES = Registry(
    "luffy.on_policy_losses",
    "log_prob, old_log_prob, loss_per_ratio, on_policy, options",
    ppo="training.algorithms.methods.on_policy:ppo",
    cispo="training.algorithms.methods.on_policy:cispo",
    gspo="training.algorithms.methods.on_policy:gspo",
    gmpo="training.algorithms.methods.on_policy:gmpo",
    sapo="training.algorithms.methods.on_policy:sapo",
    dppo="training.algorithms.methods.on_policy:dppo",
    dppo_kl="training.algorithms.methods.on_policy:dppo_kl",
    reinforce="training.algorithms.methods.on_policy:reinforce",
)
SFT_WEIGHTS = Registry(
    "luffy.sft_weights",
    "log_prob",
    {
        "one": "training.algorithms.methods.sft:one",
        "p": "training.algorithms.methods.sft:probability",
        "p(1-p)": "training.algorithms.methods.sft:uncertainty",
        "luffy": "training.algorithms.methods.sft:luffy",
    },
)
GATES = Registry(
    "luffy.gates",
    "successes, n, options",
    none="training.algorithms.methods.gate:none",
    hard="training.algorithms.methods.gate:hard",
    soft="training.algorithms.methods.gate:soft",
)
LOSS_AGG_MODES = Registry(
    "luffy.loss_agg_modes",
    "losses, response_mask, size",
    {
        "token-mean": "training.algorithms.aggregate:token_mean",
        "seq-mean-token-mean": "training.algorithms.aggregate:seq_mean_token_mean",
        "seq-mean-token-sum": "training.algorithms.aggregate:seq_mean_token_sum",
        "constant": "training.algorithms.aggregate:constant",
        "seq64-mean-token-sum-norm": "training.algorithms.aggregate:seq64_mean_token_sum_norm",
        "seq64-mean-token-sum-norm-occupied": "training.algorithms.aggregate:seq64_mean_token_sum_norm",
        "published": "training.algorithms.aggregate:published",
    },
)
# The modes of LOSS_AGG_MODES that reduce means over tokens (entropy, KL, supervised loss) in another way.
MEAN_AGG_MODES = Registry(
    "luffy.mean_agg_modes",
    "values, mask, size",
    {
        "seq64-mean-token-sum-norm": "training.algorithms.aggregate:seq64_token_mean",
        "seq64-mean-token-sum-norm-occupied": "training.algorithms.aggregate:seq64_occupied_mean",
        "published": "training.algorithms.aggregate:published_mean",
    },
)
CORRECTIONS = Registry(
    "luffy.corrections",
    "mismatch, options",
    {
        "none": "training.algorithms.correction:keep_all",
        "tis": "training.algorithms.correction:tis",
        "icepop": "training.algorithms.correction:icepop",
        "seq-mask-tis": "training.algorithms.correction:seq_mask_tis",
        "reinforce_pro": "training.algorithms.correction:reinforce_pro",
        "geo-mask": "training.algorithms.correction:geo_mask",
        "seq-tis": "training.algorithms.correction:seq_tis",
        "seq-mis": "training.algorithms.correction:seq_mis",
    },
)
PREFIX_STRATEGIES = Registry(
    "luffy.prefix_strategies",
    "options, sample",
    random="training.algorithms.schedules.prefix:random",
    linear="training.algorithms.schedules.prefix:linear",
    linear_max="training.algorithms.schedules.prefix:linear_max",
    linear_variance="training.algorithms.schedules.prefix:linear_variance",
    reverse_linear="training.algorithms.schedules.prefix:reverse_linear",
    binomial="training.algorithms.schedules.prefix:binomial",
    fixed="training.algorithms.schedules.prefix:fixed",
)
RESHAPES = Registry(
    "luffy.reshapes",
    "log_ratio, shape",
    no_reshape="training.algorithms.reshape:no_reshape",
    logp="training.algorithms.reshape:logp",
    p_logp="training.algorithms.reshape:p_logp",
    square_root="training.algorithms.reshape:square_root",
    pow="training.algorithms.reshape:power",
    p_div_p="training.algorithms.reshape:p_div_p",
)

# The keys of a configuration that choose a function.
# The trackers of verl by name, and the module that each needs.
TRACKERS = Registry("luffy.trackers", "step, metrics", tensorboard="tensorboard", mlflow="mlflow", wandb="wandb")

KEYS: Mapping[str, Registry] = {
    "mixed.loss": LOSSES,
    "mixed.on_policy_loss": ON_POLICY_LOSSES,
    "mixed.on_policy_reshape": RESHAPES,
    "mixed.off_policy_reshape": RESHAPES,
    "mixed.loss_agg_mode": LOSS_AGG_MODES,
    "mixed.prefix.strategy": PREFIX_STRATEGIES,
    "mixed.rollout_correction.type": CORRECTIONS,
    "mixed.sft_multitask.weight": SFT_WEIGHTS,
    "mixed.gate.type": GATES,
}


def outside_function(
    key: str, value: object, folder: Path | None = None, where: str = "", registry: Registry | None = None
) -> str | None:
    """Return `Registry.outside` for the value of a key, by the ``registry`` that `KEYS` has for it, or by another one.

    Raises:
        InputError: it is a path that leads nowhere; the message starts with ``where`` and the key.
    """
    try:
        return (registry or KEYS[key]).outside(value, folder)
    except ValueError as error:
        raise InputError(f"{where}{key}: {value}: {error}") from None


GAMMA = 0.1  # gamma of the shaping p / (p + gamma), as LUFFY publishes it
_NUMBER = compile_full_match(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")


def gamma_of(reshape: object) -> float | None:
    """Return the gamma in the original's spelling ``p_div_p_GAMMA`` of the shaping ``p_div_p``; None in any other.

    >>> gamma_of("p_div_p_0.1"), gamma_of("p_div_p"), gamma_of("p_div_p_0")
    (0.1, None, None)
    """
    if not isinstance(reshape, str) or not reshape.startswith("p_div_p_"):
        return None
    number = reshape.removeprefix("p_div_p_")
    return float(number) if _NUMBER(number) and 0.0 < float(number) < float("inf") else None
