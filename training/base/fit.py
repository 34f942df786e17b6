"""Supervised fine-tuning on targets, plain and small: one process, one device, float32.

The embedded base model is made with ``fit``; on a targets file it runs as ``python -m training.base.fit``.
For models of billions of parameters use verl's SFT trainer.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from core.cli import exit_status
from core.errors import InputError
from core.model_files import check_model
from core.prompts import Example, encode_example
from training.algorithms import compute_sft_pure_loss

WINDOW = 16  # batches whose examples are sorted by length together, so that little is padded
PROGRESS_SECONDS = 2.0


class Batch(NamedTuple):
    """Examples padded on the right, ``[examples, longest]`` each; ``response_mask`` is True on tokens of a response."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    response_mask: torch.Tensor


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: linear warm-up to ``lr``, then a cosine down to ``lr * final_share``."""

    steps: int
    lr: float
    warmup: int = 0
    final_share: float = 0.1
    weight_decay: float = 0.01
    grad_clip: float = 1.0

    def rate(self, step: int) -> float:
        """Share of ``lr`` used by update ``step`` (from 0)."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.final_share + (1 - self.final_share) * 0.5 * (1 + math.cos(math.pi * progress))


def batches(examples: Iterable[Example], size: int, rng: random.Random) -> Iterator[list[Example]]:
    """Batches of ``size`` in random order; examples of like length share one, within a window of the stream."""
    stream = iter(examples)
    while window := list(islice(stream, size * WINDOW)):
        window.sort(key=lambda example: len(example.prompt) + len(example.response))
        cut = [window[start : start + size] for start in range(0, len(window), size)]
        rng.shuffle(cut)
        yield from cut


def epochs(examples: Sequence[Example], rng: random.Random) -> Iterator[Example]:
    """Endless passes over ``examples``, each in an order of its own."""
    while True:
        yield from rng.sample(examples, len(examples))


def collate(examples: Sequence[Example], pad_token_id: int, device: torch.device | str = "cpu") -> Batch:
    """Pad ``examples`` to the longest of them."""
    longest = max(len(example.prompt) + len(example.response) for example in examples)
    ids = torch.full((len(examples), longest), pad_token_id)
    attention = torch.zeros(len(examples), longest, dtype=torch.bool)
    response = torch.zeros(len(examples), longest, dtype=torch.bool)
    for row, example in enumerate(examples):
        start, end = len(example.prompt), len(example.prompt) + len(example.response)
        ids[row, :end] = torch.tensor(example.prompt + example.response)
        attention[row, :end] = True
        response[row, start:end] = True
    return Batch(ids.to(device), attention.to(device), response.to(device))


def log_probs(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    """``[examples, longest - 1]``: log-probability of each token after the first under ``model``."""
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits[:, :-1]
    return torch.log_softmax(logits.float(), -1).gather(-1, batch.input_ids[:, 1:, None]).squeeze(-1)


def fit(
    model: PreTrainedModel,
    stream: Iterable[Sequence[Example]],
    schedule: Schedule,
    on_step: Callable[[int, float], None],
) -> None:
    """Train ``model`` in place with AdamW on ``schedule.steps`` batches; ``on_step(step, loss)`` after each update."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]  # norms and biases do not decay
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=schedule.lr,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.rate)
    model.train()
    for step, examples in enumerate(islice(stream, schedule.steps)):
        batch = collate(examples, model.config.pad_token_id, model.device)
        loss = compute_sft_pure_loss(log_probs(model, batch), batch.response_mask[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.grad_clip)
        optimizer.step()
        scheduler.step()
        on_step(step, loss.item())
    model.eval()


class Progress:
    """Prints step, loss (mean since the last line) and time left, at most one line each two seconds."""

    def __init__(self, title: str, steps: int):
        self.title, self.steps = title, steps
        self.losses: list[float] = []
        self.start = self.last = time.monotonic()

    def __call__(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        now, done = time.monotonic(), step + 1
        if now - self.last < PROGRESS_SECONDS and done < self.steps:
            return
        left = (now - self.start) / done * (self.steps - done)
        mean = sum(self.losses) / len(self.losses)
        print(f"{self.title} {done}/{self.steps} loss {mean:.4f}, {left:.0f} s left", flush=True)
        self.last, self.losses = now, []


def read_targets(path: Path, tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Example]:
    """The examples of a targets file; InputError if it is not one, is empty, or has a row over ``longest`` tokens."""
    try:
        columns = pq.read_schema(path).names
        missing = {"prompt", "target"} - set(columns)
        rows = [] if missing else pq.read_table(path, columns=["prompt", "target"]).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"targets {path}: cannot be read as parquet ({error}): give targets/train's file") from error
    if not rows:
        raise InputError(
            f"targets {path}: {f'no column {min(missing)}' if missing else 'no rows'}; expected rows with prompt and "
            "target: prepare them with python -m targets"
        )
    examples = []
    for row, record in enumerate(rows):
        example = encode_example(record["prompt"], record["target"][0]["content"], tokenizer)
        if (tokens := len(example.prompt) + len(example.response)) > longest:
            raise InputError(
                f"targets {path} row {row}: {tokens} tokens where the model takes {longest}: prepare the targets with "
                "a lower limit"
            )
        examples.append(example)
    return examples


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 is a mistake in the input."""
    parser = argparse.ArgumentParser(
        prog="python -m training.base.fit", description="Supervised fine-tuning of a small model on a targets file."
    )
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder to start from")
    parser.add_argument("--targets", type=Path, required=True, help="parquet with prompt and target columns")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tuned model; it must not exist")
    parser.add_argument("--steps", type=int, required=True, help="updates")
    parser.add_argument("--batch-size", type=int, default=16, help="targets an update (16)")
    parser.add_argument("--lr", type=float, default=1e-4, help="peak learning rate (1e-4)")
    parser.add_argument("--warmup", type=int, default=0, help="updates of linear warm-up (0)")
    parser.add_argument("--seed", type=int, default=0, help="order of the targets (0)")
    arguments = parser.parse_args(argv)
    return exit_status(lambda: tune(arguments))


def tune(arguments: argparse.Namespace) -> None:
    """Fine-tune as the command line says and write the model and its tokenizer."""
    if arguments.out.exists():
        raise InputError(f"{arguments.out}: already there; expected a new folder: choose another name")
    if arguments.steps < 1 or arguments.batch_size < 1:
        raise InputError(f"--steps {arguments.steps} --batch-size {arguments.batch_size}: expected 1 or more of each")
    check_model(arguments.model)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    config = AutoConfig.from_pretrained(arguments.model)
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.eos_token_id
    examples = read_targets(arguments.targets, tokenizer, config.max_position_embeddings)
    disable_progress_bar()  # of loading and saving: a terminal should show the updates
    model = AutoModelForCausalLM.from_pretrained(arguments.model, config=config, dtype=torch.float32)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    rng = random.Random(arguments.seed)
    torch.manual_seed(arguments.seed)
    fit(
        model,
        batches(epochs(examples, rng), arguments.batch_size, rng),
        Schedule(arguments.steps, arguments.lr, arguments.warmup),
        Progress("sft", arguments.steps),
    )
    save(model, tokenizer, arguments.out)


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Write both to folder ``out``: complete or absent."""
    temporary = out.with_name(f".{out.name}.tmp")
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    temporary.rename(out)


if __name__ == "__main__":
    sys.exit(main())
