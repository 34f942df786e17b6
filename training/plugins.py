"""The names of methods and trackers, to which a user adds a path, or a package an entry point."""

from pathlib import Path

from core.plugins.config_files import entries, entry
from core.plugins.user_code import function_path


class Plugins(dict[str, str]):
    """Name -> ``module:object``.

    Args:
        group: The group of entry points by which packages add objects.
    """

    def __init__(self, group: str, **names: str) -> None:
        super().__init__(names)
        self.group = group

    def find(self, name: str, folder: Path | None = None) -> str:
        """Return ``module:object`` of a name, of an entry point or of a path.

        Args:
            folder: The folder from which the path of a file starts; by default the current folder.

        Raises:
            ValueError: it is none of these. The message lists the names.
        """
        if name in self:
            return self[name]
        if (outside := self.outside(name, folder)) is None:
            names = ", ".join([*self, *entries(self.group)])
            raise ValueError(f"got {name!r}, expected one of {names}, or FILE.py:NAME")
        return outside

    def outside(self, name: object, folder: Path | None = None) -> str | None:
        """Return ``module:object`` of an entry point or of a path; None for every other name."""
        if not isinstance(name, str) or name in self:
            return None
        return function_path(name, folder or Path.cwd()) if ":" in name else entry(self.group, name)


METHODS = Plugins(
    "luffy.methods",
    on_policy="training.methods.on_policy:OnPolicy",
    luffy="training.methods.luffy:Luffy",
    multitask="training.methods.multitask:Multitask",
    hpt="training.methods.hpt:Hpt",
    chord="training.methods.chord:Chord",
    uft="training.methods.uft:Uft",
    srft="training.methods.srft:Srft",
    relift="training.methods.relift:Relift",
    exgrpo="training.methods.exgrpo:Exgrpo",
    trapo="training.methods.trapo:Trapo",
    prefix_rft="training.methods.prefix_rft:PrefixRft",
    opd="training.methods.opd:Opd",
    rlsd="training.methods.rlsd:Rlsd",
    pope="training.methods.pope:Pope",
    sft="training.methods.sft:Sft",
)
# Those of `verl.utils.tracking.Tracking`, each with the package that it imports.
_SAME = ("tensorboard", "mlflow", "wandb", "trackio", "swanlab", "clearml", "rl_insight")
TRACKERS = Plugins("luffy.trackers", **{name: name for name in _SAME}, vemlp_wandb="volcengine_ml_platform")
