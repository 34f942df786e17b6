"""``python -m research``, which ``luffy research`` starts; the docstring of each command is its help."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.cli import examples, exit_status, new_app, run_app, say, whole_number

app = new_app("Compare recipes, check recorded runs, and measure speed. Every command has --help.")
PARTS = ("operations", "targets", "training")


@app.callback()
def program() -> None:
    """Make `python -m research` a program with commands, however many there are."""


@app.command(epilog=examples("luffy research bench --only training --steps 8"))
def bench(
    only: Annotated[list[str] | None, typer.Option(metavar="|".join(PARTS), help="Measure this. Repeatable.")] = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Traces to prepare in both ways: problem, response, answer."),
    ] = None,
    rows: Annotated[int, typer.Option(parser=whole_number(1), help="Generated traces to prepare.")] = 100_000,
    steps: Annotated[int, typer.Option(parser=whole_number(4), help="Steps of each training.")] = 20,
    model: Annotated[str | None, typer.Option(help="Model to train. Default: the embedded one.")] = None,
) -> None:
    """Measure the speed and memory of this machine with the product: Dagster, the preparation, a training step."""
    from core.errors import InputError
    from research.bench import operations, targets, training

    if unknown := sorted({*(only or ())} - {*PARTS}):
        raise InputError(f"--only {unknown[0]}: expected one of {', '.join(PARTS)}")
    if traces is not None and not traces.is_file():
        raise InputError(f"--traces {traces}: no such file; expected a parquet file")
    for part in only or PARTS:
        say(f"== {part}")
        if part == "operations":
            operations.operations()
        elif part == "training":
            training.steps(steps, model)
        else:
            targets.memory(rows)
            if traces is not None:
                targets.speed(traces)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    return exit_status(lambda: run_app(app, given or ["--help"], "python -m research"))


if __name__ == "__main__":
    sys.exit(main())
