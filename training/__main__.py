"""``python -m training``: train a policy on prepared targets, with the training interpreter (``.venv-train``).

``python -m training COMMAND`` runs one of `COMMANDS` instead.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from core.cli import SEED, Parser, exit_status
from core.errors import InputError
from core.files import read_object
from core.metrics import REWARD, VALIDATION_SCORE
from core.progress import reporter
from training.commands import export, preflight, rollout_browser, track
from training.job.configuration import compose_run, names
from training.job.launch import run_job
from training.job.request import TrainingRequest, has_first_stage

COMMANDS = {"browse": rollout_browser.main, "export": export.main, "preflight": preflight.main, "track": track.main}
EPILOG = f"Other commands, each with --help: {', '.join(COMMANDS)}."


def parser() -> argparse.ArgumentParser:
    result = Parser(prog="python -m training", description="Train a policy on prepared targets.", epilog=EPILOG)
    result.add_argument("--recipe", default="luffy", help=f"one of: {', '.join(names('recipe'))} (default %(default)s)")
    result.add_argument(
        "--hardware", default="cpu", help=f"one of: {', '.join(names('hardware'))} (default %(default)s)"
    )
    result.add_argument("--targets", type=Path, help="parquet file of targets/train")
    result.add_argument(
        "--heldout",
        type=Path,
        help="parquet file of held-out targets, for recipe sft_rl (default: heldout.parquet beside --targets)",
    )
    result.add_argument("--model", type=Path, help="Hugging Face folder of the base model")
    result.add_argument("--out", type=Path, help="folder of the run; a run in it that was interrupted is resumed")
    result.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="override a configuration key"
    )
    result.add_argument("--seed", type=SEED, default=0, help="random seed (default %(default)s)")
    result.add_argument("--lineage", type=Path, help="JSON file that says where targets and model came from")
    result.add_argument(
        "--request", type=Path, metavar="FILE", help="JSON file with all of this; request.json of a run is one"
    )
    result.add_argument("--force", action="store_true", help="train even if --out has the policy of the same run")
    result.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    return result


def print_event(event: Mapping[str, Any]) -> None:
    """Write an event of the training as one line on the terminal."""
    match event["event"]:
        case "step":
            reward = event["metrics"].get(REWARD)
            reached = "" if reward is None else f", reward {reward:.2f}"
            validated = event["metrics"].get(VALIDATION_SCORE)
            reached += "" if validated is None else f", validation {validated:.2f}"
            line = f"step {event['step']} of {event['total']}{reached}, {event['seconds_left']:.0f} s left"
        case "done":
            line = f"{'reused' if event['reused'] else 'wrote'} {event['policy']}"
        case _:
            line = event["message"]
    sys.stdout.write(f"training: {line}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in COMMANDS:
        return COMMANDS[given[0]](given[1:])
    arguments = parser().parse_args(given)
    if arguments.print_config:
        run = arguments.out or Path("run")
        config = compose_run(arguments.recipe, arguments.hardware, arguments.overrides, run=run)
        sys.stdout.write(OmegaConf.to_yaml(config))
        return 0
    request = (TrainingRequest.read(arguments.request) if arguments.request else _request(arguments)).complete()
    # SIGTERM unwinds the stack as Ctrl-C does, so that the job is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with reporter() as send:

        def report(event: dict[str, Any]) -> None:
            print_event(event)
            send(event)

        run_job(request, report)
    return 0


def _request(arguments: argparse.Namespace) -> TrainingRequest:
    """The request of a command line."""
    if missing := [name for name in ("targets", "model", "out") if getattr(arguments, name) is None]:
        raise InputError(f"missing {', '.join('--' + name for name in missing)}; see python -m training --help")
    heldout = arguments.heldout or arguments.targets.with_name("heldout.parquet")
    if has_first_stage(arguments.recipe) and not heldout.is_file():
        raise InputError(
            f"recipe {arguments.recipe}: its second stage trains on held-out targets, and there is no {heldout}: give "
            "--heldout, or prepare the targets with a heldout share"
        )
    return TrainingRequest(
        recipe=arguments.recipe,
        hardware=arguments.hardware,
        overrides=arguments.overrides,
        seed=arguments.seed,
        targets=arguments.targets,
        model=arguments.model,
        heldout=heldout,
        out=arguments.out,
        upstream=read_object(arguments.lineage) if arguments.lineage else {},
        force=arguments.force,
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
