"""The reference: supervised fine-tuning in plain torch, without any trainer."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from core.files import write_json
from core.model.episodes import Example
from research.baseline.setting import Request, Setting

IGNORED = -100  # the label of a token that is not learned


class Update(NamedTuple):
    """Loss and gradient norm (before it is clipped) of one update."""

    loss: float
    grad_norm: float


def share(model: Any, rows: list[Example], tokens: int) -> Tensor:
    """Return the share of ``rows`` in the mean loss of an update with so many response ``tokens``."""
    ids = [torch.tensor([*row.prompt, *row.response]) for row in rows]
    labels = [torch.tensor([IGNORED] * len(row.prompt) + [*row.response]) for row in rows]
    padded = pad_sequence(ids, batch_first=True)
    mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
    logits = model(input_ids=padded, attention_mask=mask).logits[:, :-1]
    wanted = pad_sequence(labels, batch_first=True, padding_value=IGNORED)[:, 1:]
    return cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum") / tokens


def train(
    model: Any,
    batches: list[list[Example]],
    accumulation: int,
    setting: Setting,
    share: Callable[[Any, list[Example], int], Tensor] = share,
) -> list[Update]:
    """Train ``model`` on ``batches``, each cut into so many micro-batches; return its updates."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.lr, weight_decay=0.0)
    updates = []
    for batch in batches:
        tokens = sum(len(row.response) for row in batch)
        size, loss = len(batch) // accumulation, 0.0
        for start in range(0, len(batch), size):
            part = share(model, batch[start : start + size], tokens)
            part.backward()
            loss += part.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), setting.clip)
        optimizer.step()
        optimizer.zero_grad()
        updates.append(Update(loss, norm.item()))
    return updates


def main(request: Request) -> None:
    """Write the updates and the trained model."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(request.model, dtype=torch.float32)
    batches = request.setting.batches(request.examples())
    updates = train(model.train(), batches, request.cut.accumulation, request.setting)
    out = Path(request.out)
    model.save_pretrained(out / "policy")
    write_json(updates, out / "updates.json")


if __name__ == "__main__":
    main(Request.read(sys.argv[1]))
