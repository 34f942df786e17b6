"""The ledger of a training: each use of a target in an update, as the trainer sees it before the update."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from core.files import write_table
from core.schemas import USES
from training.algorithms.methods.sft import sft_token_loss
from training.algorithms.methods.srft import row_entropy, supervised_scale
from training.algorithms.mixed_loss import off_policy_ratio
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.registry import LOSSES
from training.verl_hooks.batch import Samples

LOW = 0.1  # the quantile of the tokens' probabilities


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
    log_prob, losses, mask = log_prob.detach().float().cpu(), losses.detach().cpu(), mask.bool().cpu()
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


def target_uses(
    samples: Samples,
    fields: Mapping[str, torch.Tensor],
    options: MixedPolicyOptions,
    step: int,
    sft_coef: float,
) -> list[dict[str, Any]]:
    """Return the uses of targets among ``samples``, rows of `USES` with losses, as `Ledger.add_losses` takes them.

    Args:
        samples: of a batch; `Samples.targets` names the target that each starts with, "" for none.
        fields: the inputs of the update, see `Advantages.fields`: of the same rows.
        step: number of the step.
        sft_coef: weight of the supervised term of this step.
    """
    chosen = [row for row, target in enumerate(samples.targets) if target and samples.sampled[row]]
    if not chosen:
        return []
    index = torch.tensor(chosen)
    off_policy = samples.off_policy_mask[index]
    log_prob = samples.rows["old_log_probs"][index].float()
    advantages = fields["advantages"][index].float()
    gate = fields["gate"][index] if "gate" in fields else torch.ones_like(log_prob)
    phi = fields["off_policy_log_probs"][index].exp() if options.has_teacher_log_probs else None
    loss = _token_loss(samples, index, advantages, phi, options, sft_coef)
    weight = off_policy_ratio(log_prob, phi, off_policy, options) if options.use_off_policy_loss else None
    losses = (loss * gate).sum(-1)
    uses: list[dict[str, Any]] = []
    for place, row in enumerate(chosen):
        tokens = off_policy[place]
        probs = log_prob[place][tokens].exp()
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
                "advantage": float(advantages[place][tokens].mean()),
                "prob": float(probs.mean()),
                "low_prob": float(probs.quantile(LOW)),
                "weight": None if weight is None else float(weight[place][tokens].mean()),
                "loss_share": float(losses[place]),
                "gate": float(gate[place][tokens].mean()),
            }
        )
    return uses


def _token_loss(
    samples: Samples,
    index: torch.Tensor,
    advantages: torch.Tensor,
    phi: torch.Tensor | None,
    options: MixedPolicyOptions,
    sft_coef: float,
) -> torch.Tensor:
    """Return the size of the loss of each off-policy token before the update, ``[rows, tokens]``, without the gate.

    Args:
        samples: of a batch.
        index: ``[rows]``: the numbers of the rows.
        advantages: ``[rows, tokens]``.
        phi: ``[rows, tokens]``: the teacher's probabilities, where it has some.
        options: Options of the algorithm.
        sft_coef: Weight of the supervised term.
    """
    off_policy, log_prob = samples.off_policy_mask[index], samples.rows["old_log_probs"][index].float()
    loss = torch.zeros_like(log_prob)
    if options.use_off_policy_loss:
        given = {} if phi is None else {"target_probs": phi}
        losses, _ = LOSSES.function(options.loss)(
            log_prob, log_prob, advantages, off_policy, off_policy, options, **given
        )
        loss += losses.abs()
    if options.sft_multitask.use:
        supervised = sft_coef * sft_token_loss(log_prob, off_policy, options.sft_multitask.weight)
        if options.srft.use:
            entropy = row_entropy(samples.rows["entropy"][index].float(), samples.mask[index])
            supervised = supervised * supervised_scale(entropy, options.srft)
        loss += supervised
    return loss
