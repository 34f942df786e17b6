"""The ledger of a training: each use of a target in an update, as the trainer sees it before the update."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from core.files import write_table
from core.schemas import USES
from training.algorithms.samples import Samples, Signal
from training.algorithms.tensors import fit_width
from training.algorithms.term import LossInputs, Term

LOW = 0.1  # the quantile of the tokens' probabilities
OF_TARGETS = ("policy", "imitation")  # the streams in which off-policy tokens teach


class Ledger:
    """The uses of one step, until `write` puts them into ``folder``, in a file of the step.

    A step that is made again after a resume replaces its file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._uses: list[Mapping[str, Any]] = []
        self._losses: list[Mapping[str, Any]] = []

    def begin(self) -> None:
        """Forget what a step left that was not finished."""
        self._uses.clear()
        self._losses.clear()

    def add(self, uses: Sequence[Mapping[str, Any]]) -> None:
        """Add the uses of a supervised update, rows of `USES`."""
        self._uses += uses

    def add_losses(self, uses: Sequence[Mapping[str, Any]]) -> None:
        """Add the uses of a policy update, rows of `USES` with their losses in the place of their shares."""
        self._losses += uses

    def write(self, step: int) -> None:
        """Write the uses of ``step``; the shares are of the losses of all its policy updates."""
        total = sum(use["loss_share"] for use in self._losses) or 1.0
        shared = [{**use, "loss_share": use["loss_share"] / total} for use in self._losses]
        table = pa.Table.from_pylist([*shared, *self._uses], schema=USES)
        write_table(table.sort_by([("target", "ascending"), ("sample", "ascending")]), self.folder / f"{step}.parquet")


def supervised_uses(targets: Sequence[tuple[str, str]], step: int) -> list[dict[str, Any]]:
    """Return the uses of (id, source) in a supervised update, before which nobody computes their probabilities."""
    share = 1 / max(len(targets), 1)
    return [
        {"step": step, "target": target, "data_source": source, "loss_share": share, "gate": 1.0}
        for target, source in targets
    ]


def row_figures(
    log_prob: torch.Tensor, losses: torch.Tensor, mask: torch.Tensor, offsets: torch.Tensor, rows: torch.Tensor
) -> list[list[float]]:
    """Return the figures of each row of a supervised micro-batch, as `row_uses` reads them from the workers' metrics.

    Args:
        log_prob: ``[tokens]`` of the rows one after the other, as are the next two.
        losses: Losses of the tokens.
        mask: the tokens of targets.
        offsets: ``[rows + 1]``: where the rows start and end.
        rows: ``[rows]``: the number of each in the dataset.
    """
    ends = offsets.tolist()
    # At once: what is read from the device row by row waits for it each time.
    log_prob = log_prob.detach().float().cpu()
    losses = losses.detach().cpu()
    mask = mask.bool().cpu()
    figures: list[list[float]] = []
    for row, start, end in zip(rows.tolist(), ends[:-1], ends[1:], strict=True):
        tokens = mask[start:end]
        probs = log_prob[start:end][tokens].exp()
        loss = float(losses[start:end][tokens].sum())
        figures.append([row, len(probs), float(probs.mean()), float(probs.quantile(LOW)), loss])
    return figures


def row_uses(figures: Sequence[Any], targets: Sequence[tuple[str, str]], step: int) -> list[dict[str, Any]]:
    """Return the uses in a supervised update from the figures of its rows, in lists of lists by rank and micro-batch.

    ``targets``: the (id, source) of each row of the dataset.
    """
    flat: list[Sequence[float]] = []
    pending: list[Any] = list(figures)
    while pending:
        part = pending.pop()
        if isinstance(part[0], list):
            pending += part
        else:
            flat.append(part)
    total = sum(loss for *_, loss in flat) or 1.0
    return [
        {
            "step": step,
            "target": targets[int(row)][0],
            "data_source": targets[int(row)][1],
            "sample": 0,
            "tokens": int(tokens),
            "prob": prob,
            "low_prob": low_prob,
            "loss_share": loss / total,
            "gate": 1.0,
        }
        for row, tokens, prob, low_prob, loss in flat
    ]


def target_uses(samples: Samples, signal: Signal, terms: Sequence[Term], step: int) -> list[dict[str, Any]]:
    """Return the uses of targets among ``samples``, rows of `USES` with losses, as `Ledger.add_losses` takes them.

    Args:
        samples: of a batch; `Samples.targets` names the target that each starts with, "" for none.
        signal: the inputs of the update: of the same rows.
        terms: of its loss.
        step: number of the step.
    """
    chosen = [row for row, target in enumerate(samples.targets) if target and samples.sampled[row]]
    if not chosen:
        return []
    index = torch.tensor(chosen)
    x = _loss_inputs(samples, signal, index)
    losses = torch.zeros_like(x.log_prob)
    gate = torch.zeros_like(x.log_prob)
    ratio = None
    for term in (term for term in terms if term.stream in OF_TARGETS and not term.reads_logits):
        given = signal.weights.get(term.stream)
        weight = x.off_policy if given is None else given.expand(samples.mask.shape)[index] * x.off_policy
        if not weight.any():
            continue
        values = term.losses(x).losses.abs() * weight
        losses = losses + signal.coefficients[term.name] * values
        gate = torch.maximum(gate, weight.float())
        ratio = term.off_policy_weights(x) if ratio is None else ratio
    losses = losses.sum(-1)
    uses: list[dict[str, Any]] = []
    for place, row in enumerate(chosen):
        tokens = x.off_policy[place]
        probs = x.log_prob[place][tokens].exp()
        own = samples.own_samples(row)
        uses.append(
            {
                "step": step,
                "target": samples.targets[row],
                "data_source": samples.sources[row],
                "sample": samples.numbers[row],
                "tokens": int(tokens.sum()),
                "solved": int(samples.solved[own].sum()),
                "samples": len(own),
                "advantage": float(x.advantages[place][tokens].mean()),
                "prob": float(probs.mean()),
                "low_prob": float(probs.quantile(LOW)),
                "weight": None if ratio is None else float(ratio[place][tokens].mean()),
                "loss_share": float(losses[place]),
                "gate": float(gate[place][tokens].mean()),
            }
        )
    return uses


def _loss_inputs(samples: Samples, signal: Signal, index: torch.Tensor) -> LossInputs:
    """Return what a term reads of the rows ``index``, before the update."""
    rows = samples.rows
    mask = samples.mask
    off_policy = samples.off_policy_mask[index]
    log_prob = rows["old_log_probs"][index].float()
    phi = rows.get("off_policy_log_probs")
    return LossInputs(
        log_prob=log_prob,
        entropy=None if (entropy := rows.get("entropy")) is None else entropy[index].float(),
        old_log_prob=log_prob,
        advantages=signal.advantages[index].float(),
        ref_log_prob=None,
        phi=None if phi is None else fit_width(phi, mask.shape[1])[index].exp(),
        tokens=off_policy,
        valid=mask[index],
        off_policy=off_policy,
        rollout_log_prob=None if (rollout := rows.get("rollout_log_probs")) is None else rollout[index].float(),
    )
