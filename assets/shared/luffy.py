"""What every asset has of the settings: the resource ``luffy``, and the names of our definitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.shared.settings import StageSettings
from assets.shared.storage import Data, Storage, made_in_run
from evaluation.benchmarks.suite import Benchmark

IO_MANAGER = "luffy_io_manager"


@dataclass(frozen=True)
class Names:
    """The names of our definitions, which may stand among another project's.

    Args:
        key_prefix: The first parts of every asset key. Groups, jobs, sensors and schedules begin with them, too.
    """

    key_prefix: tuple[str, ...] = ()

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return the key of an asset."""
        return key.with_prefix(self.key_prefix)

    def name(self, name: str) -> str:
        """Return the name of a group, job, sensor or schedule."""
        return "_".join([*self.key_prefix, name])


@dataclass(frozen=True)
class Luffy:
    """The resource ``luffy``: the settings of a run, and what follows from them."""

    names: Names
    settings: StageSettings
    suite: Sequence[Benchmark]
    checks: Path  # the suite of quality checks
    benchmark: str  # of training/checkpoints
    storage: Storage

    def read(self, context: dg.AssetExecutionContext, key: dg.AssetKey, kind: type[Data]) -> Data:
        """Return the reference to the asset ``key`` from this run, or from the last one; InputError if it is gone."""
        made = made_in_run(context.instance, context.run_id, self.names.key(key), kind)
        return made or self.storage.read_reference(key.to_user_string(), kind)
