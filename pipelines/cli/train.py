"""``luffy train``: the command line of ``python -m training`` with the settings of a profile."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.commands import Command, option
from core.shared_settings import InterpreterSettings
from pipelines.cli.programs import start_program
from training.settings import TrainingSettings

if TYPE_CHECKING:
    import typer


class Train(Command):
    """Train a policy on prepared targets."""

    everyday = ("training.recipe", "training.hardware", "training.seed")
    examples = (
        "luffy train --recipe luffy --targets targets/train.parquet --model models/base --out runs/luffy",
        "luffy train --print-config --set training.config.actor_rollout_ref.actor.optim.lr=1e-6",
        "luffy train --request runs/luffy/request.json",
    )

    targets: Path | None = option(None, "Parquet file of targets/train.", metavar="FILE.parquet")
    model: Path | None = option(None, "Hugging Face folder of the base model.", metavar="DIR")
    out: Path | None = option(None, "Folder of the run. An interrupted run in this folder is resumed.", metavar="DIR")
    heldout: Path | None = option(
        None,
        "Held-out targets, for a recipe that trains on them. Default: heldout.parquet next to --targets.",
        metavar="FILE.parquet",
    )
    lineage: Path | None = option(None, "JSON file that records where the inputs came from.", metavar="JSON")
    force: bool = option(False, "Train again, even if the folder already has the policy of this run.")
    print_config: bool = option(False, "Print the resolved configuration and stop.")
    training: TrainingSettings = TrainingSettings()
    interpreter: InterpreterSettings = InterpreterSettings()

    def run(self) -> None:
        files = ("targets", "model", "out", "heldout", "lineage")
        given = {name: getattr(self, name) for name in files} | {
            name: getattr(self.training, name) for name in ("recipe", "hardware", "seed")
        }
        if self.interpreter.backend != "local":
            given |= {"backend": self.interpreter.backend, "slurm": json.dumps(self.interpreter.slurm)}
            given["ray-address"] = self.interpreter.ray_address
        options = [part for name, value in given.items() if value is not None for part in (f"--{name}", str(value))]
        options += [part for text in self.training.overrides for part in ("--set", text)]
        options += ["--force"] * self.force + ["--print-config"] * self.print_config
        start_program("train", "training", options, self.interpreter)


def names_program(program: "typer.Typer", arguments: Sequence[str]) -> bool:
    """Return whether ``python -m training`` takes ``arguments`` as they are: a command of its own, or a request."""
    names = {
        str(command.name or command.callback.__name__) for command in program.registered_commands if command.callback
    }
    return bool(names & {*arguments[:1]}) or any(text.startswith("--request") for text in arguments)
