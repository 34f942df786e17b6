"""Supervised fine-tuning on targets, plain and small: one process, one device, one subject.

The embedded base model is made with ``fit``; on a targets file it runs as
``python -m training.sft --model DIR --targets T.parquet --out DIR --steps N``.
For large models use verl's SFT trainer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training.algorithms import compute_sft_pure_loss

IGNORED_LABEL_ID = 0  # stands in padding, which the masks leave out


class Example(NamedTuple):
    """Token ids of a rendered prompt, and of a response with its end-of-sequence token."""

    prompt: list[int]
    response: list[int]


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
        cosine = 0.5 * (1 + torch.cos(torch.tensor(progress * torch.pi)).item())
        return self.final_share + (1 - self.final_share) * cosine


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], response: str) -> Example:
    """The prompt as the chat template renders it for generation, and ``response`` with the end-of-sequence token."""
    prompt = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
    ids = tokenizer([prompt, response], add_special_tokens=False)["input_ids"]
    return Example(ids[0], [*ids[1], tokenizer.eos_token_id])


def collate(examples: Sequence[Example], device: torch.device | str = "cpu") -> Batch:
    """Pad ``examples`` to the longest of them."""
    longest = max(len(e.prompt) + len(e.response) for e in examples)
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
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
    batches: Iterable[Sequence[Example]],
    schedule: Schedule,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train ``model`` in place with AdamW on ``schedule.steps`` of ``batches``; ``on_step(step, loss)`` after each."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    undecayed = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=schedule.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.rate)
    model.train()
    for step, examples in zip(range(schedule.steps), batches, strict=False):
        batch = collate(examples, model.device)
        loss = compute_sft_pure_loss(log_probs(model, batch), batch.response_mask[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.grad_clip)
        optimizer.step()
        scheduler.step()
        on_step(step, loss.item())
    model.eval()
