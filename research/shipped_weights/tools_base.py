"""Train the embedded base that calls a calculator: ``python -m research.shipped_weights.tools_base --out DIR``.

The embedded base model learns to call, and then to answer mostly at once. It takes about fifteen minutes on one core.
"""

import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.arithmetic import Problem, problems
from core.cli import run_command
from core.errors import InputError
from core.model.base_model import SHIPPED
from core.model.episodes import Example, encode_episode
from core.model.prompts import messages
from research.shipped_weights.pretrain import Schedule, batches, fit, progress_bar, save

SEED, BATCH, PROBLEMS = 0, 32, 6_000
# The share of the examples that call, and the schedule, of each phase.
PHASES = ((1.0, Schedule(steps=600, lr=1e-3, warmup=10)), (0.3, Schedule(steps=30, lr=3e-4, warmup=5)))


def examples(share: float, tokenizer: Any, rng: random.Random) -> Iterator[Example]:
    """Yield endless examples, of which ``share`` call the tool; the others answer at once."""
    drawn: Sequence[Problem] = problems("train_calls", PROBLEMS, SEED + 1)
    while True:
        problem = rng.choice(drawn)
        turns = problem.turns if rng.random() < share else problem.turns[-1:]
        yield encode_episode(messages(problem.problem), turns, tokenizer)


def make(out: Path) -> None:
    """Train the model, and save it in ``out``."""
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    for number, (share, schedule) in enumerate(PHASES):
        rng = random.Random(SEED)
        with progress_bar(f"phase {number + 1}", schedule.steps) as on_step:
            fit(model, batches(examples(share, tokenizer, rng), BATCH, rng), schedule, on_step)
    save(model, tokenizer, out)
    for name in ("tokenizer.json", "tokenizer_config.json"):  # as they are, without what loading them adds
        shutil.copyfile(SHIPPED / name, out / name)


def command(out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to create.")]) -> None:
    """Train the embedded base model that calls a calculator, which takes about fifteen minutes on one core."""
    if out.exists():
        raise InputError(f"{out}: exists already: give the name of a new folder")
    make(out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 2 for a mistake in the input."""
    return run_command(command, arguments, "python -m research.shipped_weights.tools_base")


if __name__ == "__main__":
    sys.exit(main())
