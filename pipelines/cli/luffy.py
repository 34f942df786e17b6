"""``luffy``: one command for everything that a user of the project does.

It only reads the command line. The modules beside this one, and ``python -m targets|training|evaluation``, do the work;
they are imported when their command runs, so that help and completion answer at once.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.cli import COMMAND, exit_status
from core.code_digest import HARDWARE, PROJECT, RECIPES
from core.errors import InputError

START, DATA, COMPARISON, CHAMPION = "Start here", "Your own data and models", "Comparisons", "The champion"
EPILOG = (
    "Try `luffy demo`, then `luffy ui`. Every command has --help. Outputs go to var/storage. "
    "`luffy --install-completion` teaches your shell the commands and their options."
)
HELP = {"-h", "--help"}  # needs no training interpreter
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="luffy",
    help="Train a reasoning model with off-policy guidance, score it, and know which traces made which score.",
    epilog=EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _stems(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def profiles() -> list[str]:
    """The profiles that the project ships."""
    return _stems(PROJECT / "pipelines" / "profiles")


def recipes() -> list[str]:
    """The recipes of trainings."""
    return _stems(PROJECT / RECIPES)


def hardware_profiles() -> list[str]:
    """The hardware that a training can be configured for."""
    return _stems(PROJECT / HARDWARE)


Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Profile of settings, by name or as a YAML file (default: $LUFFY_PROFILE, or embedded).",
        autocompletion=profiles,
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting. Repeatable.")
]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="ASSETS", help="Only these assets, such as key:targets/train, or +key:targets/train with what it needs."
    ),
]
AtOnce = Annotated[int | None, typer.Option(metavar="N", help="Stages that run at the same time (default: 2).")]
Recipes = Annotated[
    list[str] | None,
    typer.Argument(metavar="RECIPE", help="Recipes (default: those of the profile, or all).", autocompletion=recipes),
]
CopyTo = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also copy the tables and figures to this folder.")]
Port = Annotated[int, typer.Option(help="Port of the UI.")]
Host = Annotated[str, typer.Option(help="Address to listen on. Keep it local, as the UI has no login.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why. It is kept with the decision.")]


def _settings(profile: str | None, overrides: list[str] | None) -> list[str]:
    arguments = ["--profile", profile] if profile else []
    return arguments + [part for override in overrides or [] for part in ("--set", override)]


def _use(profile: str | None) -> None:
    from pipelines.cli.run import configure

    configure(profile, [])


@app.callback()
def named(context: typer.Context) -> None:
    """Let the errors of the programs behind a command name the command."""
    os.environ[COMMAND] = f"luffy {context.invoked_subcommand}"


@app.command(rich_help_panel=START)
def demo(overrides: Overrides = None) -> int:
    """Run the whole graph on a small built-in task: targets, training, evaluation, scorecard. Needs no GPU."""
    return run(profile="embedded", overrides=overrides)


@app.command(rich_help_panel=START)
def ui(port: Port = 3000, host: Host = "127.0.0.1", profile: Profile = None) -> None:
    """Serve the Dagster UI, which shows and starts the same runs, until Ctrl-C."""
    from pipelines.cli.ui import main

    _use(profile)
    main(["--port", str(port), "--host", host])


@app.command(rich_help_panel=START)
def doctor(
    hardware: Annotated[str, typer.Option(help="What to train on.", autocompletion=hardware_profiles)] = "cpu",
    port: Port = 3000,
    machine_only: Annotated[bool, typer.Option("--machine-only", help="Do not train.")] = False,
) -> int:
    """Say what this machine lacks, then train and evaluate the built-in model on it."""
    from pipelines.cli.doctor import main

    del os.environ[COMMAND]  # its parser is not ours, because it runs on any Python
    arguments = ["--hardware", hardware, "--port", str(port)]
    return main([*arguments, "--machine-only"] if machine_only else arguments)


@app.command(rich_help_panel=DATA)
def run(
    profile: Profile = None, overrides: Overrides = None, select: Select = None, max_concurrent: AtOnce = None
) -> int:
    """Run the graph on your data, model and benchmarks. Unchanged results are reused."""
    from pipelines.cli.run import main

    arguments = _settings(profile, overrides)
    arguments += [] if select is None else ["--select", select]
    return main(arguments if max_concurrent is None else [*arguments, "--max-concurrent", str(max_concurrent)])


@app.command(rich_help_panel=DATA, context_settings=PASS_ON)
def targets(context: typer.Context) -> None:
    """Turn raw traces into training targets, without Dagster: `luffy targets --help`."""
    _become("targets", Path(sys.executable), context.args)


@app.command(rich_help_panel=DATA, context_settings=PASS_ON)
def train(context: typer.Context) -> None:
    """Train a policy on prepared targets, without Dagster: `luffy train --help`."""
    if HELP & {*context.args}:
        from training.__main__ import main

        main(context.args)
        return
    _become("training", _training_python(), context.args)


@app.command(rich_help_panel=DATA, context_settings=PASS_ON)
def evaluate(context: typer.Context) -> None:
    """Sample, grade and compare any models, without Dagster: `luffy evaluate --help`."""
    if HELP & {*context.args}:
        from evaluation.__main__ import main

        main(context.args)
        return
    _become("evaluation", _training_python(), context.args)


@app.command(rich_help_panel=COMPARISON)
def experiments(
    recipes: Recipes = None, profile: Profile = None, overrides: Overrides = None, copy_to: CopyTo = None
) -> int:
    """Train and score recipes, and compare them on one page."""
    from pipelines.cli.experiments import main

    arguments = [*(recipes or []), *_settings(profile, overrides)]
    return main(arguments if copy_to is None else [*arguments, "--copy-to", str(copy_to.absolute())])


@app.command(rich_help_panel=COMPARISON)
def compare(
    recipes: Recipes = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Seeds per recipe (default: the profile's).")] = None,
    overrides: Overrides = None,
    copy_to: CopyTo = None,
) -> int:
    """Repeat the paper's comparison of recipes on the built-in task, with several seeds each. Takes hours."""
    more = [] if seeds is None else [f"experiments.seeds={seeds}"]
    return experiments(recipes, "comparison", [*(overrides or []), *more], copy_to)


@app.command(rich_help_panel=COMPARISON)
def drift(variants: Recipes = None, overrides: Overrides = None, copy_to: CopyTo = None) -> int:
    """Compare what each rollout correction does with stale samples on the built-in task. Takes hours."""
    return experiments(variants, "drift", overrides, copy_to)


@app.command(rich_help_panel=COMPARISON)
def leaderboard(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="Model folders or hub ids to evaluate first.")
    ] = None,
    profile: Profile = None,
    overrides: Overrides = None,
) -> int:
    """Rank every checkpoint that was evaluated. `--set suite.name=FILE.yaml` chooses another suite for MODEL."""
    from pipelines.cli.leaderboard import main

    return main([*(models or []), *_settings(profile, overrides)])


@app.command(rich_help_panel=CHAMPION)
def champion(profile: Profile = None) -> int:
    """Show the policy that is in use, and the last decisions."""
    return _registry(profile, ["show"])


@app.command(rich_help_panel=CHAMPION)
def promote(
    to: Annotated[
        str, typer.Argument(metavar="TO", help="The first characters of a policy's digest, or the folder of its run.")
    ],
    reason: Reason = "",
    profile: Profile = None,
) -> int:
    """Make a policy the champion by hand."""
    return _registry(profile, ["promote", to, "--reason", reason])


@app.command(rich_help_panel=CHAMPION)
def rollback(reason: Reason = "", profile: Profile = None) -> int:
    """Make the champion before the present one the champion again."""
    return _registry(profile, ["rollback", "--reason", reason])


def _registry(profile: str | None, arguments: list[str]) -> int:
    from pipelines.cli.registry import main

    _use(profile)
    return main(arguments)


def _training_python() -> Path:
    from assets.shared.interpreter import TrainingInterpreter
    from pipelines.definitions.settings import load_settings

    return TrainingInterpreter(python=load_settings().interpreter.python).executable()


def _become(module: str, python: Path, arguments: Sequence[str]) -> None:
    """Replace this process by ``python -m module``, which reads the rest of the command line."""
    os.execv(python, [str(python), "-m", module, *arguments])


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; a mistake in it is an InputError."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        return app(given or ["--help"], prog_name="luffy", standalone_mode=False) or 0
    except typer.TyperException as error:
        text = " ".join(error.format_message().split()).rstrip(".")
        raise InputError(f"{text}; see {os.environ.get(COMMAND, 'luffy')} --help") from None
    finally:
        os.environ.pop(COMMAND, None)


if __name__ == "__main__":
    sys.exit(exit_status(main))
