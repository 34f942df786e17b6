"""``luffy``: one command for everything that a user of the project does.

It only reads the command line. The modules beside this one do the work, and are imported when their command runs, so
that help and completion answer at once. ``targets``, ``train`` and ``evaluate`` are the applications of
``python -m targets|training|evaluation``.
"""

import os
import sys
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from core import PROJECT
from core.cli import COMMAND, as_written, examples, exit_status, new_app, run_app, say, whole_number
from core.errors import InputError
from core.plugins.config_files import HARDWARE, config_file
from core.plugins.user_code import python_path
from pipelines.cli.shared_options import (
    AtOnce,
    Host,
    Overrides,
    Port,
    Profile,
    Reason,
    Select,
    hardware_profiles,
    profiles,
)

START, DATA, COMPARISON, CHAMPION = "Start here", "Your own data and models", "Comparisons", "The champion"
PACKAGES = {"targets": "targets", "train": "training", "evaluate": "evaluation"}
TRAINING_PYTHON = {"train", "evaluate"}  # commands that need it, except for their help
HELP = {"-h", "--help"}


class PackageCommand(TyperCommand):
    """A command that is the application of a package, which is imported when somebody calls it or asks for its help."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        package = PACKAGES[str(self.name)]
        completing = extra.get("resilient_parsing", False)
        if self.name in TRAINING_PYTHON and not completing and not HELP & {*args}:
            python = _interpreter().executable()
            os.environ |= {COMMAND: f"luffy {self.name}", "PYTHONPATH": python_path()}
            program = ["-P", "-m", "core.machine.interruptible", package]  # -P: not what the current folder calls so
            os.execv(python, [str(python), *program, *args])
        application = typer.main.get_command(import_module(f"{package}.__main__").app)
        return application.make_context(info_name, args, parent, **extra)


app = new_app(
    "Train a small model on worked examples of your field, and prove that it got better.",
    add_completion=True,
    epilog="Try `luffy demo`, then `luffy ui`. Every command has --help. Outputs go to var/storage. "
    "`luffy --install-completion` lets your shell complete the commands and their options.",
)
champions = new_app("Show the champion (the policy in use) and the last decisions, or move it by hand.")
app.add_typer(champions, name="champion", rich_help_panel=CHAMPION)


def _print_version(asked: bool) -> None:
    if asked:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        sys.stdout.write(f"luffy {project['version']}\n")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Declare the options of the program itself."""


@app.command(rich_help_panel=START)
def demo(overrides: Overrides = None) -> int:
    """Run the whole graph on a small built-in task: targets, training, evaluation, scorecard. It needs no GPU."""
    return run(profile="embedded", overrides=overrides)


@app.command(
    rich_help_panel=START, epilog=examples("luffy new traces.jsonl", "luffy new traces.jsonl --verifier python")
)
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Traces: JSON lines, parquet or CSV.")],
    verifier: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Verifier of the answers: a type, or a mapping with type and options; python writes one to edit. "
            "Default: math for numbers, else exact.",
        ),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            metavar="YAML",
            help="The columns, as {problem: …, answer: …, response: …}, or a ready mapping. Default: by their names.",
        ),
    ] = None,
) -> None:
    """Look at a file of traces, and write luffy.yaml here: the profile of a run that learns from them."""
    from pipelines.cli.new import new

    for line in new(file, verifier, mapping):
        say(line)


@app.command(rich_help_panel=START, epilog=examples("luffy ui --port 3001"))
def ui(port: Port = 3000, host: Host = "127.0.0.1", profile: Profile = None) -> None:
    """Serve the Dagster UI, which shows and starts the same runs, until Ctrl-C."""
    from pipelines.cli.ui import serve

    serve(host, port, profile)


@app.command(rich_help_panel=START, epilog=examples("luffy doctor --machine-only", "luffy doctor --profile small"))
def doctor(
    hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Hardware profile to train with. Default: cpu.", autocompletion=hardware_profiles
        ),
    ] = None,
    port: Port = 3000,
    machine_only: Annotated[bool, typer.Option("--machine-only", help="Only check the machine; do not train.")] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Look for known faults in 20 prompts of this profile's training instead.",
            autocompletion=profiles,
        ),
    ] = None,
    overrides: Overrides = None,
) -> int:
    """Check this machine, then train and evaluate the built-in model on it; or examine a training before it starts."""
    if profile is not None:
        if hardware is not None or machine_only:
            option = "--machine-only" if machine_only else "--hardware"
            raise InputError(
                f"{option} and --profile: give one of them: the profile names the hardware of its training"
            )
        from pipelines.cli.profile_doctor import examine_profile

        return examine_profile(profile, overrides or [])
    if overrides:
        raise InputError("--set: it changes settings of a profile: name the profile with --profile")
    from pipelines.cli.doctor import doctor

    config_file(HARDWARE, hardware or "cpu")
    return doctor(hardware or "cpu", port, machine_only=machine_only, python=_interpreter().path())


@app.command(
    rich_help_panel=DATA,
    epilog=examples(
        "luffy run --profile small --set 'targets.source=[traces.parquet]' --set model.source=model",
        "luffy run --select +key:targets/train",
        "luffy run --profile rounds --rounds 3",
    ),
)
def run(
    profile: Profile = None,
    overrides: Overrides = None,
    select: Select = None,
    max_concurrent: AtOnce = 1,
    force: Annotated[bool, typer.Option("--force", help="Make what is selected again: storage.force=true.")] = False,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=whole_number(1), help="Ask the teacher about what is unsolved, train on it; N times."
        ),
    ] = None,
) -> int:
    """Run the graph on your data, model and benchmarks. Unchanged results are reused."""
    from pipelines.cli.run import run_graph
    from pipelines.settings import DEFAULT, load

    settings = load(profile, [*(overrides or []), *(["storage.force=true"] if force else [])])
    if rounds is not None:
        if select is not None:
            raise InputError("--rounds and --select: give one of them: a round runs the whole graph")
        from pipelines.cli.rounds import run_rounds

        return run_rounds(settings, rounds, max_concurrent)
    named = "" if profile is None or profile == DEFAULT else profile
    return run_graph(settings, select, max_concurrent, profile=named)


@app.command(cls=PackageCommand, rich_help_panel=DATA)
def targets() -> None:
    """Turn raw traces into training targets, without Dagster."""


@app.command(
    rich_help_panel=DATA,
    epilog=examples(
        "luffy verify --verifier choice --in responses.jsonl",
        "luffy verify --verifier '{type: python, path: my_reward.py:score}' --in responses.jsonl",
    ),
)
def verify(
    verifier: Annotated[
        str, typer.Option(metavar="SPEC", help="Verifier: a type, or a mapping with type and options.")
    ],
    file: Annotated[
        Path,
        typer.Option("--in", metavar="FILE.jsonl", help="Responses: JSON objects with response, gold and fields."),
    ],
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="YAML",
            help=as_written(
                "The fields of a source, for a trial of what its rows will have: [options], or {entry: column.path}; "
                "by default all keys."
            ),
        ),
    ] = None,
    thinking: Annotated[
        bool, typer.Option("--thinking", help="Count an answer only after </think>, as in training.")
    ] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", parser=whole_number(1), help="Number of responses to grade at the same time.")
    ] = 2,
) -> int:
    """Try a verifier on a file of responses: count each verdict, and show ten examples of each."""
    from core.text.parse import parse_yaml
    from grading.verifier_trial import check_fields, describe, only_errors, read_columns, read_responses, try_verifier
    from grading.verifiers.spec import parse_spec

    spec, columns = parse_spec(parse_yaml(verifier, "--verifier"), "--verifier"), read_columns(fields)
    check_fields(spec, columns, file)
    tried = try_verifier(spec, read_responses(file, columns), thinking=thinking, workers=workers)
    for line in describe(tried):
        say(line)
    return int(only_errors(tried))


@app.command(cls=PackageCommand, rich_help_panel=DATA)
def train() -> None:
    """Train a policy on prepared targets, without Dagster."""


@app.command(
    rich_help_panel=DATA,
    epilog=examples(
        "luffy explain var/storage/training/policy/3f2a9c81d0e4b765",
        "luffy explain research/runs/drift/stale_8_none-2.zip --page explain.html",
    ),
)
def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training, or a recorded run (.zip).")],
    page: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Also write an HTML page.")] = None,
) -> None:
    """Explain why a training does not learn: the first cause, its evidence, and the setting to change."""
    from pipelines.cli.explain import explain_run

    explain_run(run, page)


@app.command(cls=PackageCommand, rich_help_panel=DATA)
def evaluate() -> None:
    """Sample, grade and compare any models, without Dagster."""


@app.command(
    rich_help_panel=COMPARISON,
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    epilog=examples("luffy research compare luffy hpt --seeds 8", "luffy research bench --help"),
)
def research(context: typer.Context) -> None:
    """Compare recipes, check recorded runs, measure speed.

    Commands: run, compare, drift, words, remake, recheck, disagreements, promotion, bench; each has --help.
    """
    os.environ |= {COMMAND: "luffy research", "PYTHONPATH": python_path()}
    os.execv(sys.executable, [sys.executable, "-P", "-m", "research", *context.args])


@app.command(
    rich_help_panel=COMPARISON,
    epilog=examples("luffy leaderboard", "luffy leaderboard Qwen/Qwen3-0.6B models/mine --set suite.name=mine.yaml"),
)
def leaderboard(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...", help="Model folders or hub ids to evaluate first, on the suite of the profile."
        ),
    ] = None,
    profile: Profile = None,
    overrides: Overrides = None,
) -> int:
    """Rank all evaluated checkpoints."""
    from pipelines.cli.leaderboard_command import rank

    return rank(models or [], profile, overrides or [])


@champions.callback(invoke_without_command=True)
def champion(context: typer.Context, profile: Profile = None) -> None:
    """Show the champion (the policy in use) and the last decisions, or move it by hand."""
    if context.invoked_subcommand is None:
        from pipelines.cli.champion_commands import show

        show(profile)
    elif profile is not None:
        raise InputError(
            f"--profile: give it behind the command: luffy champion {context.invoked_subcommand} --profile"
        )


@champions.command(epilog=examples('luffy champion promote 3f2a9c81 --reason "fewer refusals"'))
def promote(
    to: Annotated[
        str, typer.Argument(metavar="TO", help="The first characters of a policy's digest, or the folder of its run.")
    ],
    reason: Reason = "",
    profile: Profile = None,
) -> None:
    """Make a policy the champion by hand."""
    from pipelines.cli.champion_commands import promote

    promote(to, reason, profile)


@champions.command(epilog=examples('luffy champion rollback --reason "worse on long problems"'))
def rollback(reason: Reason = "", profile: Profile = None) -> None:
    """Return to the previous champion."""
    from pipelines.cli.champion_commands import rollback

    rollback(reason, profile)


@champions.command(
    epilog=examples("luffy champion retention --set retention.keep_days=60", "luffy champion retention --remove")
)
def retention(
    remove: Annotated[bool, typer.Option("--remove", help="Remove them. Default: only list them.")] = False,
    profile: Profile = None,
    overrides: Overrides = None,
) -> int:
    """List the old outputs that neither a champion nor anything else refers to, or remove them."""
    from pipelines.cli.champion_commands import retention

    return retention(profile, overrides or [], remove=remove)


def _interpreter() -> Any:
    from assets.shared.interpreter_process import TrainingInterpreter
    from pipelines.settings import load

    return TrainingInterpreter(python=load().interpreter.python)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; a mistake in it is an InputError."""
    if not (PROJECT / "workspace.yaml").is_file():
        raise InputError(f"{PROJECT} is not a checkout of the project: install one by pip install --editable CHECKOUT")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    return run_app(app, list(sys.argv[1:] if arguments is None else arguments) or ["--help"], "luffy")


def run_program() -> None:
    """The console script: every process that it starts finds the project, whatever its interpreter and folder."""
    os.environ["PYTHONPATH"] = python_path()
    sys.exit(exit_status(main))


if __name__ == "__main__":
    run_program()
