"""The names that a recipe can choose, and the function behind each name.

A function is imported on first use, so that options are validated without torch. A method and a tracker may be of the
user's: a recipe names them as ``FILE.py:NAME`` or ``package.module:NAME``, or a package declares them as entry points.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.plugins.config_files import entries, entry
from core.plugins.user_code import function_path, load_function
from core.text.patterns import compile_full_match


class Registry(dict[str, str]):
    """Name -> ``module:function``."""

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of ``name``; a ValueError that lists the names if there is none."""
        return load_function(self[self.require(name)])

    def require(self, name: str) -> str:
        """Return ``name`` if there is such a function; a ValueError that lists the names otherwise."""
        if name not in self:
            raise ValueError(f"got {name!r}, expected one of {', '.join(self)}")
        return name


class Plugins(Registry):
    """Name -> ``module:object``, to which a user may add.

    Args:
        group: The group of entry points by which packages add objects.
    """

    def __init__(self, group: str, **names: str) -> None:
        super().__init__(names)
        self.group = group

    def find(self, name: str, folder: Path | None = None) -> str:
        """Return ``module:object`` of a registered name, of an entry point or of a path.

        Args:
            folder: The folder from which the path of a file starts; by default the current folder.

        Raises:
            ValueError: it is none of these. The message lists the names.
        """
        if name in self:
            return self[name]
        if (found := self.outside(name, folder)) is None:
            names = ", ".join([*self, *entries(self.group)])
            raise ValueError(f"got {name!r}, expected one of {names}, or FILE.py:NAME")
        return found

    def outside(self, name: object, folder: Path | None = None) -> str | None:
        """Return ``module:object`` of an entry point or of a path; None for every other name."""
        if not isinstance(name, str) or name in self:
            return None
        return function_path(name, folder or Path.cwd()) if ":" in name else entry(self.group, name)


METHODS = Plugins("luffy.methods", mixed="training.methods.mixed:Mixed")
TRACKERS = Plugins("luffy.trackers", tensorboard="tensorboard", mlflow="mlflow", wandb="wandb")

ON_POLICY_LOSSES = Registry(
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
    {
        "one": "training.algorithms.methods.sft:one",
        "p": "training.algorithms.methods.sft:probability",
        "p(1-p)": "training.algorithms.methods.sft:uncertainty",
        "luffy": "training.algorithms.methods.sft:luffy",
    },
)
GATES = Registry(
    none="training.algorithms.methods.gate:none",
    hard="training.algorithms.methods.gate:hard",
    soft="training.algorithms.methods.gate:soft",
)
LOSS_AGG_MODES = Registry(
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
    {
        "seq64-mean-token-sum-norm": "training.algorithms.aggregate:seq64_token_mean",
        "seq64-mean-token-sum-norm-occupied": "training.algorithms.aggregate:seq64_occupied_mean",
        "published": "training.algorithms.aggregate:published_mean",
    },
)
CORRECTIONS = Registry(
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
    random="training.algorithms.schedules.prefix:random",
    linear="training.algorithms.schedules.prefix:linear",
    linear_max="training.algorithms.schedules.prefix:linear_max",
    linear_variance="training.algorithms.schedules.prefix:linear_variance",
    reverse_linear="training.algorithms.schedules.prefix:reverse_linear",
    binomial="training.algorithms.schedules.prefix:binomial",
    fixed="training.algorithms.schedules.prefix:fixed",
)
RESHAPES = Registry(
    no_reshape="training.algorithms.reshape:no_reshape",
    logp="training.algorithms.reshape:logp",
    p_logp="training.algorithms.reshape:p_logp",
    square_root="training.algorithms.reshape:square_root",
    pow="training.algorithms.reshape:power",
    p_div_p="training.algorithms.reshape:p_div_p",
)

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
