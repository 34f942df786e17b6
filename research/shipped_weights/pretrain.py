"""The training loop of the embedded base model: supervised, one process, one device, float32.

Recipe ``sft`` trains on targets at any scale (``training.verl_hooks.supervised``); both have the loss of
``training.algorithms.imitation``.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from rich.progress import Progress
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.files import atomic_folder
from core.model.episodes import Example
from training.algorithms.imitation import sft_token_loss

WINDOW = 16  # batches whose examples are sorted by length together, so that little is padded


class Batch(NamedTuple):
    """Examples padded on the right, ``[examples, longest]`` each; ``response_mask`` is True on tokens that count."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    response_mask: torch.Tensor


@dataclass(frozen=True)
class Schedule:
    """The length and learning rate of a training: linear warm-up to ``lr``, then a cosine to ``lr * final_share``."""

    steps: int
    lr: float
    warmup: int = 0
    final_share: float = 0.1
    weight_decay: float = 0.01
    grad_clip: float = 1.0

    def rate(self, step: int) -> float:
        """Return the share of ``lr`` that update ``step`` (from 0) uses."""
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
        response[row, start:end] = torch.tensor(example.mask, dtype=torch.bool)
    return Batch(ids.to(device), attention.to(device), response.to(device))


def log_probs(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    """Return ``[examples, longest - 1]``: log-probability of each token after the first under ``model``."""
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
        mask = batch.response_mask[:, 1:]
        loss = sft_token_loss(log_probs(model, batch), mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.grad_clip)
        optimizer.step()
        scheduler.step()
        on_step(step, loss.item())
    model.eval()


@contextmanager
def progress_bar(title: str, steps: int) -> Iterator[Callable[[int, float], None]]:
    """Yield an ``on_step`` for `fit` that draws the progress, the loss and the time left on the terminal."""
    with Progress() as progress:
        task = progress.add_task(title, total=steps)
        yield lambda step, loss: progress.update(task, completed=step + 1, description=f"{title}, loss {loss:.4f}")


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Write model and tokenizer to folder ``out``, complete or not at all."""
    with atomic_folder(out) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
