"""``luffy``: one program for everything that a user of the project does.

A command reads its command line here; the modules next to this one do the work, and are imported when it runs, so that
help and completion answer at once. ``targets``, ``train`` and ``evaluate`` are the commands of
``python -m targets|training|evaluation``.
"""

import inspect
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from core import PROJECT
from core.cli import COMMAND, examples, exit_status, run_app, say
from core.commands import PROFILE, SETS, Command, Profiled, add_default, application, option
from core.errors import InputError
from core.plugins.config_files import HARDWARE, config_file, config_names
from core.plugins.user_code import python_path
from pipelines.cli.programs import interpreter, start_program

HELP = {"-h", "--help"}
PACKAGES = {"targets": "targets", "train": "training", "evaluate": "evaluation"}
PACKAGES_HELP = {
    "targets": "Turn raw traces into training targets.",
    "train": "Train a policy on prepared targets.",
    "evaluate": "Sample, grade and compare any models.",
}
PORT = option(3000, "Port of the UI.", metavar="PORT", ge=1, le=65535)
REASON = option("no reason given", "Your reason, which stays with the decision.", metavar="TEXT")
TABLES = (".csv", ".tsv", ".parquet", ".arrow")  # files of responses that are read as a source


class Demo(Command):
    """Run the whole graph on a small built-in task: targets, training, evaluation, scorecard."""

    examples = ("luffy demo --smoke",)

    smoke: bool = option(False, "Three training steps and 8 problems: a minute that shows that everything works.")
    sets: tuple[str, ...] = SETS

    def run(self) -> int:
        return Run(profile="smoke" if self.smoke else "embedded", sets=self.sets).run()


class Setup(Command):
    """Build the training environment (torch, verl and vLLM) from the lock of this version, unless it is up to date."""

    examples = ("luffy setup", "luffy setup --hardware gpu", "luffy setup --on /opt/conda/bin/python")

    hardware: str | None = option(
        None, "cpu or gpu. Default: what the environment is for already, else cpu.", metavar="NAME"
    )
    on: Path | None = option(None, "A Python that has torch, verl and vLLM, to build on.", metavar="PYTHON")
    force: bool = option(False, "Accept versions of that Python's packages that are not supported.")

    def run(self) -> None:
        from core.training_environment import build_training_environment

        build_training_environment(self.hardware, self.on, force=self.force)


class New(Command):
    """Look at a file of traces, and write luffy.yaml here: the profile of a run that learns from them."""

    examples = ("luffy new traces.jsonl", "luffy new traces.jsonl --verifier python")

    file: Path = option(..., "Traces: JSON lines, parquet or CSV.", cli="", metavar="FILE")
    verifier: str | None = option(
        None,
        "Verifier of the answers: a type, or a mapping with type and options; python writes one to edit. Default: math "
        "for numbers, else exact.",
        metavar="SPEC",
    )
    mapping: str | None = option(
        None,
        "The columns, as {problem: …, answer: …, response: …}, or a ready mapping. Default: by their names.",
        metavar="YAML",
    )
    tools: str | None = option(None, "The tools that the traces call, as [{type: FILE.py:NAME}].", metavar="YAML")

    def run(self) -> None:
        from pipelines.cli.new import new

        for line in new(self.file, self.verifier, self.mapping, self.tools):
            say(line)


class Run(Profiled):
    """Run the graph on your data, model and benchmarks; unchanged results are reused."""

    examples = (
        "luffy run --profile small --set 'targets.source=[traces.parquet]' --set model.source=model",
        "luffy run --select +key:targets/train",
        "luffy run --profile rounds --rounds 3",
    )

    select: str | None = option(
        None,
        "Only these assets, such as key:targets/train, or +key:targets/train to include dependencies.",
        metavar="ASSETS",
    )
    max_concurrent: int = option(1, "Maximum number of stages that run at the same time.", ge=1)
    force: bool = option(False, "Make what is selected again: storage.force=true.")
    rounds: int | None = option(None, "Ask the teacher about what is unsolved, train on it; N times.", ge=1)

    def run(self) -> int:
        from pipelines.cli.run import run_graph, unread
        from pipelines.settings import DEFAULT, load

        settings = load(self.profile, [*self.sets, *(["storage.force=true"] if self.force else [])])
        if keys := unread(settings.training.recipe, self.sets):
            say(f"--set: recipe {settings.training.recipe} imitates, and does not read {', '.join(keys)}")
        if self.rounds is not None:
            if self.select is not None:
                raise InputError("--rounds and --select: give one of them: a round runs the whole graph")
            from pipelines.cli.rounds import run_rounds

            return run_rounds(settings, self.rounds, self.max_concurrent)
        named = "" if self.profile is None or self.profile == DEFAULT else self.profile
        return run_graph(settings, self.select, self.max_concurrent, profile=named)


class Ui(Profiled):
    """Serve the Dagster UI, which shows and starts the same runs, until Ctrl-C."""

    examples = ("luffy ui --port 3001",)

    port: int = PORT
    host: str = option("127.0.0.1", "Address to listen on. Keep it local: the UI has no login.", metavar="ADDRESS")

    def run(self) -> None:
        from pipelines.cli.ui import serve

        serve(self.host, self.port, self.profile)


class Doctor(Profiled):
    """Say what this machine lacks for a training, or look for known faults in a profile's training before it starts."""

    examples = ("luffy doctor --hardware gpu", "luffy doctor --profile small")

    hardware: str | None = option(
        None,
        "Hardware profile. Default: cpu.",
        metavar="NAME",
        complete=lambda: config_names(HARDWARE),
    )
    port: int = PORT

    def run(self) -> int:
        if self.profile is not None:
            if self.hardware is not None:
                raise InputError(
                    "--hardware and --profile: give one of them: the profile names the hardware of its training"
                )
            from pipelines.cli.profile_doctor import examine_profile

            return examine_profile(self.profile, self.sets)
        if self.sets:
            raise InputError("--set: it changes settings of a profile: name the profile with --profile")
        from pipelines.cli.doctor import doctor

        hardware = self.hardware or "cpu"
        config_file(HARDWARE, hardware)
        return doctor(hardware, self.port, interpreter().path())


class Verify(Command):
    """Try a verifier on a file of responses: count each verdict, and show ten examples of each."""

    examples = (
        "luffy verify --verifier choice --in responses.jsonl",
        "luffy verify --verifier '{type: python, path: my_reward.py:score}' --in responses.jsonl",
    )

    verifier: str = option(..., "Verifier: a type, or a mapping with type and options.", metavar="SPEC")
    file: Path = option(
        ..., "Responses: JSON objects with response, gold and fields.", cli="--in", metavar="FILE.jsonl"
    )
    mapping: str | None = option(
        None,
        "The columns of a file of traces, {problem: …, answer: …, response: …}, or a ready mapping: of any kind that "
        "a source has. Default for a table, such as CSV: by their names.",
        metavar="YAML",
    )
    fields: str | None = option(
        None,
        "The fields of a source, for a trial of what its rows will have: [options], or {entry: column.path}; by "
        "default all keys.",
        metavar="YAML",
    )
    thinking: bool = option(False, "Count an answer only after </think>, as in training.")
    workers: int = option(2, "Number of responses to grade at the same time.", ge=1)

    def run(self) -> int:
        from core.text.parse import parse_yaml
        from grading.verifier_trial import (
            check_fields,
            describe,
            only_errors,
            read_columns,
            read_responses,
            try_verifier,
        )
        from grading.verifiers.spec import parse_spec

        spec, columns = parse_spec(parse_yaml(self.verifier, "--verifier"), "--verifier"), read_columns(self.fields)
        check_fields(spec, columns, self.file)
        as_source = self.mapping or self.file.suffix in TABLES
        responses = self._traces(columns) if as_source else read_responses(self.file, columns)
        tried = try_verifier(spec, responses, thinking=self.thinking, workers=self.workers)
        for line in describe(tried):
            say(line)
        return int(only_errors(tried))

    def _traces(self, columns: Mapping[str, str] | None) -> list[Any]:
        """Return the responses of a file of traces, without the rows that cannot be read."""
        from core.text.parse import parse_yaml
        from grading.verifiers.verifier import Item
        from targets.read.sources import read_source
        from targets.settings import build_config

        mapping = parse_yaml(self.mapping or "auto", "--mapping")
        source = {"path": str(self.file), "mapping": mapping, "fields": columns or {}}
        traces = read_source(build_config({"source": [source]}, where="--mapping"))
        items = [Item(str(t.response), str(t.gold), t.verifier_fields) for t in traces if not t.reasons]
        if not items:
            raise InputError(f"{self.file}: no row has the columns of --mapping; expected a text in each of them")
        return items


class Explain(Command):
    """Explain why a training does not learn: the first cause, its evidence, and the setting to change."""

    examples = (
        "luffy explain var/storage/training/policy/3f2a9c81d0e4b765",
        "luffy explain research/runs/drift/stale_8_none-2.zip --page explain.html",
    )

    folder: Path = option(..., "Folder of a training, or a recorded run (.zip).", cli="", metavar="RUN")
    page: Path | None = option(None, "Also write an HTML page.", metavar="FILE.html")

    def run(self) -> None:
        from pipelines.cli.explain import explain_run

        explain_run(self.folder, self.page)


class Show(Command):
    """Show the champion (the policy in use) and the last decisions, or move it by hand."""

    profile: str | None = PROFILE

    def run(self) -> None:
        from pipelines.cli.champion_commands import show

        show(self.profile)


class Promote(Show):
    """Make a policy the champion by hand."""

    examples = ('luffy champion promote 3f2a9c81 --reason "fewer refusals"',)

    to: str = option(..., "The first characters of a policy's digest, or the folder of its run.", cli="", metavar="TO")
    reason: str = REASON

    def run(self) -> None:
        from pipelines.cli.champion_commands import move_champion

        move_champion(lambda registry: registry.promote(self.to, reason=self.reason), self.profile)


class Rollback(Show):
    """Return to the previous champion."""

    examples = ('luffy champion rollback --reason "worse on long problems"',)

    reason: str = REASON

    def run(self) -> None:
        from pipelines.cli.champion_commands import move_champion

        move_champion(lambda registry: registry.rollback(reason=self.reason), self.profile)


class Retention(Profiled):
    """List the old outputs that neither a champion nor anything else refers to, or remove them."""

    examples = ("luffy champion retention --set retention.keep_days=60", "luffy champion retention --remove")

    remove: bool = option(False, "Remove them. Default: only list them.")

    def run(self) -> int:
        from pipelines.cli.champion_commands import retention

        return retention(self.profile, self.sets, remove=self.remove)


class PackageCommand(TyperCommand):
    """A command that is the program of a package, which is imported when somebody calls it or asks for its help.

    Trainings and evaluations run in the training interpreter.
    """

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        name = str(self.name)
        asked = extra.get("resilient_parsing", False) or HELP & {*args}  # for completion, or for the help
        if name == "evaluate" and not asked:
            start_program("evaluate", "evaluation", args)
        program = import_module(f"{PACKAGES[name]}.__main__").app
        if name == "targets":
            from pipelines.cli.targets import Targets

            add_default(program, Targets)
        if name == "train":
            from pipelines.cli.train import Train, names_program

            if names_program(program, args) and not asked:
                start_program("train", "training", [text.removeprefix("training.config.") for text in args])
            add_default(program, Train)
        return typer.main.get_command(program).make_context(info_name, args, parent, **extra)


def research(context: typer.Context) -> None:
    """Compare recipes, check recorded runs, measure speed.

    Commands: run, compare, settle, drift, words, remake, recheck, disagreements, promotion, baseline, bench; each has
    --help.
    """
    os.environ |= {COMMAND: "luffy research", "PYTHONPATH": python_path()}
    os.execv(sys.executable, [sys.executable, "-P", "-m", "research", *context.args])


def _print_version(asked: bool) -> None:
    if asked:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        sys.stdout.write(f"luffy {project['version']}\n")
        raise typer.Exit


def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Declare the options of the program itself."""


def build_app() -> typer.Typer:
    """Return the program with its commands, in the order of their use."""
    app = application(
        "Train a small model on worked examples of your field, and prove that it got better.",
        (Setup, Demo, New, Run, Ui, Doctor, Verify, Explain),
        add_completion=True,
        epilog="Try `luffy demo`, then `luffy ui`. Every command has --help. Outputs go to var/storage. "
        "`luffy --install-completion` lets your shell complete the commands and their options.",
    )
    app.callback()(program)
    for name, about in PACKAGES_HELP.items():
        app.command(name, cls=PackageCommand, help=about)(lambda: None)
    champion = application(inspect.getdoc(Show) or "", (Promote, Rollback, Retention), Show)
    app.add_typer(champion, name="champion")
    passed_on = {"allow_extra_args": True, "allow_interspersed_args": False}
    about = examples("luffy research compare luffy hpt --seeds 8", "luffy research bench --help")
    app.command(context_settings=passed_on, epilog=about)(research)
    return app


app = build_app()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; a mistake in it is an InputError."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    return run_app(app, list(sys.argv[1:] if arguments is None else arguments) or ["--help"], "luffy")


def run_program() -> None:
    """The console script: every process that it starts finds the project, whatever its interpreter and folder."""
    os.environ["PYTHONPATH"] = python_path()
    sys.exit(exit_status(main))


if __name__ == "__main__":
    run_program()
