"""``python -m training``: train a policy on prepared targets. Run it with the training interpreter."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.cli import exit_status
from core.errors import InputError
from training.run.attempts import TrainingFailed
from training.run.configuration import compose_run, names
from training.run.job import Job, print_report, read_upstream, run_job
from training.run.lineage import TrainingRequest, has_first_stage


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m training", description="Train a policy on prepared targets.")
    result.add_argument("--recipe", default="luffy", help=f"one of: {', '.join(names('recipe'))} (default %(default)s)")
    result.add_argument(
        "--hardware", default="cpu", help=f"one of: {', '.join(names('hardware'))} (default %(default)s)"
    )
    result.add_argument("--targets", type=Path, help="parquet of targets/train")
    result.add_argument(
        "--heldout", type=Path, help="parquet of held-out targets, for recipe sft_rl (default: heldout.parquet beside)"
    )
    result.add_argument("--model", type=Path, help="Hugging Face folder of the base model")
    result.add_argument("--out", type=Path, help="folder of the run; an interrupted run in it is resumed")
    result.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="override a key"
    )
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--lineage", type=Path, help="JSON that says where targets and model came from")
    result.add_argument("--force", action="store_true", help="train even if the same run is there already")
    result.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    return result


def reporter() -> Callable[[dict[str, Any]], None]:
    """Lines on the terminal, and messages to Dagster when it started us."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        return print_report
    from dagster_pipes import open_dagster_pipes

    pipes = open_dagster_pipes()

    def report(event: dict[str, Any]) -> None:
        print_report(event)
        pipes.report_custom_message(event)

    return report


def main() -> int:
    arguments = parser().parse_args()
    if arguments.print_config:
        from omegaconf import OmegaConf

        run = arguments.out or Path("run")
        sys.stdout.write(
            OmegaConf.to_yaml(compose_run(arguments.recipe, arguments.hardware, arguments.overrides, run=run))
        )
        return 0
    if missing := [name for name in ("targets", "model", "out") if getattr(arguments, name) is None]:
        raise InputError(f"missing {', '.join('--' + name for name in missing)}; see python -m training --help")
    heldout = arguments.heldout or arguments.targets.with_name("heldout.parquet")
    if not has_first_stage(arguments.recipe):
        heldout = None
    elif not heldout.is_file():
        raise InputError(
            f"recipe {arguments.recipe}: its second stage trains on held-out targets, and there is no {heldout}: give "
            "--heldout, or prepare the targets with a heldout share"
        )
    request = TrainingRequest.of_files(
        recipe=arguments.recipe,
        hardware=arguments.hardware,
        overrides=tuple(arguments.overrides),
        seed=arguments.seed,
        targets=arguments.targets,
        model=arguments.model,
        heldout=heldout,
    )
    job = Job(request, arguments.targets, arguments.model, arguments.out, read_upstream(arguments.lineage), heldout)
    # SIGTERM unwinds like Ctrl-C, so that the job below is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    run_job(job, reporter(), force=arguments.force)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(exit_status(main))
    except TrainingFailed as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
