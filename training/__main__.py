"""``python -m training``: train a policy on prepared targets, with the training interpreter (``.venv-train``).

Without a command it trains. The docstring of each command is its help. What a command needs is imported when it runs,
because `luffy train --help` shows this help from an interpreter without OmegaConf.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from core.backends.supervisor import is_supervised, under_supervisor
from core.cli import examples, exit_status, new_app, refuse_options_before, run_app
from core.commands import build, options_of
from core.errors import InputError
from core.files import atomic_folder
from core.machine.loopback import single_node_environment
from core.model.lineage_file import InputRecord
from core.parquet import is_there
from core.plugins.config_files import HARDWARE, RECIPES, config_file, config_names, is_path, trains_on_heldout
from training.config.run import DTYPES
from training.job.request import TrainingRequest

app = new_app("Train a policy on prepared targets. Without a COMMAND, the options below start or resume a training.")
Run = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the run.")]


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "luffy train --recipe luffy --targets targets/train.parquet --model models/base --out runs/luffy",
        "luffy train --recipe luffy --print-config --set actor_rollout_ref.actor.optim.lr=1e-6",
        "luffy train --request runs/luffy/request.json",
    ),
)
@options_of(TrainingRequest)
def train(
    context: typer.Context,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the resolved configuration and stop.")
    ] = False,
    **given: Any,
) -> int:
    """Train a policy on prepared targets."""
    if context.invoked_subcommand:
        refuse_options_before(context)
        return 0
    if print_config:
        _print_config(context, given)
        return 0
    request = build(TrainingRequest, context, given)
    if request.heldout is None and trains_on_heldout(request.recipe):
        heldout = request.targets.path.with_name("heldout.parquet")
        if not is_there(heldout):
            raise InputError(
                f"recipe {request.recipe}: its second stage trains on held-out targets, and there is no {heldout}: "
                "give --heldout, or prepare the targets with a heldout share"
            )
        request = request.model_copy(update={"heldout": InputRecord(path=heldout, digest="")})
    os.environ |= single_node_environment()  # Ray reads it on import
    if request.backend == "local" and not is_supervised():
        os.execv(sys.executable, under_supervisor([sys.executable, "-P", "-m", "training", *sys.argv[1:]]))
    request = request.complete()
    # SIGTERM unwinds the stack as Ctrl-C does, so that the job is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from training.job.events import tell
    from training.job.run_folder import RunFolder
    from training.run import FirstStageFailed, run_job, submit

    try:
        (run_job if request.backend == "local" else submit)(request, tell)
    except FirstStageFailed as error:
        return error.status
    except (KeyboardInterrupt, SystemExit):
        sys.stdout.write(f"training: stopped; {RunFolder(request.out).kept('run the same command again')}\n")
        raise
    return 0


def _print_config(context: typer.Context, given: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    from training.config.to_verl import compose_run

    given = {name: value for name, value in given.items() if value is not None}
    files = {} if "request" in given else {"targets": "targets", "model": "model", "out": "run"}  # it depends on none
    request = build(TrainingRequest, context, files | given)
    config = compose_run(request.recipe, request.hardware, request.config_overrides(), run=request.out)
    sys.stdout.write(OmegaConf.to_yaml(config))


@app.command()
def compose(
    recipe: Annotated[str, typer.Option(help="A name, or the path of a recipe file.")] = "luffy",
    hardware: Annotated[str, typer.Option(help="The hardware profile.")] = "cpu",
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Leave out the overrides that only other recipes read.")
    ] = False,
) -> None:
    """Check the run that a recipe, a hardware profile and overrides describe, and print it as one tree."""
    import yaml

    from training.config.compose import compose as composed
    from training.config.overrides import read_by
    from training.config.to_verl import to_verl

    given = overrides or []
    run = composed(recipe, hardware, read_by(recipe, given)[0] if shared else given).run
    to_verl(run, Path("run"))
    sys.stdout.write(yaml.safe_dump(run.model_dump(), sort_keys=False, allow_unicode=True))


@app.command()
def browse(run: Run, out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")]) -> None:
    """Write the samples of a run, step by step, to one HTML page that opens offline."""
    from training.diagnosis import browse as command

    command.browse(run, out)


@app.command(epilog=examples("luffy train check trapo", "luffy train check method.py:Mine"))
def check(
    method: Annotated[str, typer.Argument(metavar="RECIPE|FILE.py:CLASS", help="A recipe or a method.")],
) -> None:
    """Try a method on seeded samples: its hooks and its state, and losses that do not depend on cuts and ranks."""
    from training.config.method_keys import of_run
    from training.config.to_verl import compose_run
    from training.methods import method_of, resolved
    from training.verl_hooks.conformance import check_method

    if is_path(method) or method in config_names(RECIPES):
        chosen = of_run(compose_run(method, "cpu", [], run=Path("run")))
    else:
        chosen = method_of(resolved({"type": method}))
    sys.stdout.write(f"{method} holds: {', '.join(check_method(chosen))}\n")


@app.command()
def examine(
    request: Annotated[
        Path, typer.Option(metavar="FILE.json", help="Request of a training, such as RUN/request.json.")
    ],
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Answers of the base model that `evaluate generate` drew."),
    ] = None,
) -> int:
    """Look for known faults in 20 prompts of a training before it starts: template, tokenizer, verifier."""
    from training.diagnosis import before

    return before.report(request, samples)


@app.command()
def export(
    run: Run,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to create.")],
    step: Annotated[int | None, typer.Option(help="Step of the checkpoint. Default: the newest.")] = None,
    dtype: Annotated[str, typer.Option(metavar="|".join(DTYPES), help="Type of the weights.")] = DTYPES[0],
) -> None:
    """Write the model of a checkpoint as a Hugging Face folder, during the run or after it."""
    from training.job.checkpoints import complete_steps, export_model
    from training.job.run_folder import RunFolder

    if dtype not in DTYPES:
        raise InputError(f"--dtype: got {dtype!r}, expected one of {', '.join(DTYPES)}")
    checkpoints = RunFolder(run).checkpoints
    steps = complete_steps(checkpoints)
    if not steps:
        raise InputError(f"--run {run}: no complete checkpoint in it: give the folder of a training run")
    step = steps[-1] if step is None else step
    if step not in steps:
        raise InputError(f"--step {step}: expected one of {', '.join(map(str, steps))}")
    if out.exists():
        raise InputError(f"--out {out}: exists already: give the name of a new folder")
    with atomic_folder(out) as temporary:
        export_model(checkpoints, step, temporary, dtype)


@app.command()
def preflight(
    hardware: Annotated[str, typer.Option(help="The hardware profile.")] = "cpu",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder on the disk that the runs will use.")] = Path("var"),
) -> int:
    """Check that this machine can train: one line for each check, with what to do if it fails."""
    from training.diagnosis.machine import MACHINE, MACHINE_GPU, Examination, checks_of, run_checks

    config_file(HARDWARE, hardware)
    out.mkdir(parents=True, exist_ok=True)
    checks = checks_of(MACHINE, *([MACHINE_GPU] if hardware != "cpu" else []))
    if failed := run_checks(checks, Examination(hardware, out)):
        sys.stdout.write(f"{len(failed)} of the checks failed\n")
        return 1
    sys.stdout.write("nothing is missing for a training on this machine\n")
    return 0


@app.command()
def track(
    run: Run,
    scorecard: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the policy's scorecard.")] = None,
) -> None:
    """Publish the lineage and the scorecard of a finished training to its MLflow and W&B runs."""
    from training.job.trackers import FILE, publish

    lines = publish(run, scorecard)
    if not lines:
        raise InputError(f"--run {run}: no {FILE} in it: it was trained without mlflow and wandb")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_app(app, sys.argv[1:] if arguments is None else arguments, "python -m training")


if __name__ == "__main__":
    sys.exit(exit_status(main))
