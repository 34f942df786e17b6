"""The policy loss of one update by the product, verl and TRL, on the same log-probabilities, however it is cut."""

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor
from trl import GRPOTrainer  # pyright: ignore[reportMissingImports]  # requirements/baseline.lock
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss

from core.files import write_json
from research.baseline.setting import Cut
from training.methods.on_policy import OnPolicy
from training.verl_hooks.loss import step_loss

ROWS, PROMPT, LIMIT, CLIP = 32, 3, 40, 0.2
CUTS = [Cut(accumulation, ranks) for ranks in (1, 2) for accumulation in (1, 4, 16)]
# What each code base calls the same mean. `bnpo` has no counterpart: it is the mean of the micro-batches' token means.
MODES = {
    "mean over tokens": ("token-mean", "token-mean", "dapo"),
    "mean over rows of their means": ("seq-mean-token-mean", "seq-mean-token-mean", "grpo"),
    "sum over a constant": ("constant", "seq-mean-token-sum-norm", "dr_grpo"),
    "mean of means (bnpo)": ("token-mean", "token-mean", "bnpo"),
}


class Batch(NamedTuple):
    """One update: lists of the tokens of each row, and the advantage of each row."""

    log_probs: list[Tensor]
    old_log_probs: list[Tensor]
    advantages: list[float]

    def part(self, rows: slice) -> "Batch":
        return Batch(*(column[rows] for column in self))


Share = Callable[[Batch, Batch, int, Cut], Tensor]  # of a micro-batch in an update, of rows in a rank


def seeded_batch() -> Batch:
    """Return rows of 1 to `LIMIT` tokens, short and long ones in turn; the policy has moved since their draw."""
    random = torch.Generator().manual_seed(1)
    lengths = [int(length) for length in torch.randint(1, LIMIT + 1, (ROWS,), generator=random)]
    lengths = [max(1, length // 8) if row % 2 else length for row, length in enumerate(lengths)]
    old = [-2 * torch.rand(length, generator=random, dtype=torch.float64) for length in lengths]
    moved = [row + 0.2 * torch.randn(len(row), generator=random, dtype=torch.float64) for row in old]
    return Batch(moved, old, torch.randn(ROWS, generator=random, dtype=torch.float64).tolist())


def data_of(part: Batch, whole: Batch, cut: Cut) -> tuple[dict[str, Tensor], Any]:
    """Return the output of the model and the data of a micro-batch, as verl's engine hands them to a loss."""
    nested = [torch.cat([row.new_zeros(PROMPT - 1), row, row.new_zeros(1)]) for row in part.log_probs]
    columns = {
        "response_mask": [torch.ones(len(row)) for row in part.log_probs],
        "old_log_probs": part.old_log_probs,
        "advantages": [
            torch.full((len(row),), value, dtype=torch.float64)
            for row, value in zip(part.log_probs, part.advantages, strict=True)
        ],
        "rollout_is_weights": [torch.ones(len(row)) for row in part.log_probs],
        "prompts": [torch.zeros(PROMPT) for _ in part.log_probs],
        "responses": [torch.zeros(len(row)) for row in part.log_probs],
    }
    rest = {
        "dp_size": cut.ranks,
        "batch_num_tokens": sum(map(len, whole.log_probs)),
        "global_batch_size": ROWS,
        "counts": {"valid": (sum(map(len, whole.log_probs)), ROWS)},
        "coefficients": {"pg_loss": 1.0, "entropy_loss": 0.0},
        "loss": "policy",
    }
    fields = {name: jagged(rows) for name, rows in columns.items()}
    data = tu.get_tensordict({**fields, "prefix_length": torch.zeros(len(part.log_probs))}, rest)
    return {"log_probs": jagged(nested)}, data


def jagged(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def ours(mode: str) -> Share:
    """Return the loss of the product's workers."""
    method = OnPolicy.model_validate(
        {"reduce": {"type": mode}, "on_policy": {"type": "ppo", "clip": {"low": CLIP, "high": CLIP}}}
    )
    return lambda part, whole, _, cut: step_loss(method.losses(), LIMIT, *data_of(part, whole, cut))[0]


def verls(mode: str) -> Share:
    """Return the loss of verl's workers."""
    config = {"clip_ratio": CLIP, "clip_ratio_low": CLIP, "clip_ratio_high": CLIP, "clip_ratio_c": 1e9}
    config |= {"loss_agg_mode": mode, "loss_scale_factor": LIMIT, "use_kl_loss": False}
    actor: Any = OmegaConf.create({**config, "policy_loss": {"loss_mode": "vanilla"}, "global_batch_info": {}})
    return lambda part, whole, _, cut: ppo_loss(actor, *data_of(part, whole, cut))[0]


class TrlLoss(GRPOTrainer):
    """TRL's loss, with given log-probabilities in the place of a model's."""

    def __init__(self, mode: str, cut: Cut) -> None:
        self.args: Any = SimpleNamespace(delta=None, steps_per_generation=cut.accumulation)
        self.accelerator: Any = SimpleNamespace(
            num_processes=cut.ranks, gather=lambda values: values, reduce=lambda values, reduction: values
        )
        self.model: Any = SimpleNamespace(training=True)
        self.loss_type, self.importance_sampling_level, self.top_entropy_quantile = mode, "token", 1.0
        self.epsilon_low = self.epsilon_high = CLIP
        self.beta, self.max_completion_length, self.current_gradient_accumulation_steps = 0.0, LIMIT, cut.accumulation
        self.off_policy_mask_threshold = None
        self.use_vllm = self.aux_loss_enabled = self._entropy_bonus_enabled = False
        self._metrics: Any = {"train": defaultdict(list)}

    def _get_per_token_logps_and_entropies(self, model: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        return model, torch.zeros_like(model), None


def trls(mode: str) -> Share:
    """Return the loss of TRL's GRPOTrainer."""

    def share(part: Batch, whole: Batch, _: int, cut: Cut) -> Tensor:
        pad = torch.nn.utils.rnn.pad_sequence
        mask = pad([torch.ones(len(row)) for row in part.log_probs], batch_first=True)
        inputs = {
            "prompt_ids": torch.zeros(len(mask), PROMPT),
            "prompt_mask": torch.ones(len(mask), PROMPT),
            "completion_ids": mask,
            "completion_mask": mask,
            "advantages": torch.tensor(part.advantages, dtype=torch.float64),
            "old_per_token_logps": pad(part.old_log_probs, batch_first=True),
            "num_items_in_batch": torch.tensor(sum(map(len, whole.log_probs))),
        }
        return TrlLoss(mode, cut)._compute_loss(pad(part.log_probs, batch_first=True), inputs)

    return share


def update(share: Share, cut: Cut) -> tuple[float, Tensor]:
    """Return loss and gradient of the seeded update, averaged over the ranks as data parallelism does."""
    batch = seeded_batch()
    leaves = [row.requires_grad_() for row in batch.log_probs]
    size, loss = ROWS // cut.accumulation // cut.ranks, 0.0
    for start in range(0, ROWS, size):
        part = share(batch.part(slice(start, start + size)), batch, ROWS // cut.ranks, cut) / cut.ranks
        part.backward()
        loss += part.item()
    return loss, torch.cat([leaf.grad for leaf in leaves if leaf.grad is not None])


def main(out: Path) -> None:
    """Write the largest relative difference of loss and gradient from the product's, by mode, code and cut."""
    rows = []
    for name, modes in MODES.items():
        loss, gradient = update(ours(modes[0]), Cut())
        for code, make, mode in zip(("ours", "verl", "TRL"), (ours, verls, trls), modes, strict=True):
            for cut in CUTS:
                other, other_gradient = update(make(mode), cut)
                gradients = float((other_gradient - gradient).norm() / gradient.norm())
                rows.append([name, code, mode, str(cut), abs(other / loss - 1), gradients])
    write_json(rows, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
