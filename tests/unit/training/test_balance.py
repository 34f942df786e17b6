"""Targets, longer than what a policy samples, are packed with samples and shared out over ranks and updates."""

from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.seqlen_balancing import rearrange_micro_batches

from training.verl_hooks.batch import order_of_updates

RANKS, UPDATES, ROWS = 8, 2, 64  # of the published run: 128 prompts x 8 samples
LIMIT = 20480  # tokens of a micro-batch, in the profiles for GPUs
SAMPLES = RANKS * UPDATES * ROWS


@pytest.fixture(scope="module")
def balanced() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of each sample and whether it is a target, ``[rank, update, row]``: 2,400 and 4,000 tokens on average."""
    draw = torch.Generator().manual_seed(0)
    sampled = (torch.randn(SAMPLES, generator=draw) * 0.6 + 7.6).exp().clamp(50, 8192)
    targets = (torch.randn(SAMPLES, generator=draw) * 0.5 + 8.2).exp().clamp(500, 8192)
    off_policy = torch.arange(SAMPLES) % 8 == 0
    lengths = torch.where(off_policy, targets, sampled).long() + 150
    tags = [{"seq_len": int(lengths[row]), "target": bool(off_policy[row])} for row in range(SAMPLES)]
    trainer = SimpleNamespace(
        actor_rollout_wg=SimpleNamespace(_dispatch_info={"actor": list(range(RANKS))}),
        _get_required_batch_multiple=lambda ranks: ranks * ROWS,
        tokenizer=SimpleNamespace(eos_token_id=2),
    )
    batch = KVBatchMeta(keys=[str(number) for number in range(SAMPLES)], tags=tags, partition_id="train")
    batch = PPOTrainer._balance_batch(trainer, batch, {})  # pyright: ignore[reportArgumentType]
    batch.reorder(order_of_updates([tag["seq_len"] for tag in batch.tags], RANKS, ROWS))
    assert sorted(map(int, batch.keys)) == list(range(SAMPLES))
    shape = (RANKS, UPDATES, ROWS)
    return (
        torch.tensor([tag["seq_len"] for tag in batch.tags]).view(shape),
        torch.tensor([tag["target"] for tag in batch.tags]).view(shape),
    )


def test_ranks_have_equal_tokens_in_every_update(balanced: tuple[torch.Tensor, torch.Tensor]) -> None:
    tokens = balanced[0].sum(-1).float()  # [rank, update]
    assert float((tokens.amax(0) / tokens.mean(0)).max()) < 1.01


def test_every_rank_has_targets_in_every_update(balanced: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert int(balanced[1].sum(-1).min()) >= 1


def test_micro_batches_are_filled_and_mix_targets_with_samples(balanced: tuple[torch.Tensor, torch.Tensor]) -> None:
    lengths, targets = balanced[0][0, 0], balanced[1][0, 0]
    rows = [torch.full((length,), row) for row, length in enumerate(lengths.tolist())]
    data = TensorDict({"input_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}, batch_size=[ROWS])
    _, chosen = rearrange_micro_batches(data, max_token_len=LIMIT)
    assert int(lengths.sum()) / (len(chosen) * LIMIT) > 0.85
    mixed = [micro_batch for micro_batch in chosen if 0 < int(targets[micro_batch].sum()) < len(micro_batch)]
    assert len(mixed) >= min(int(targets.sum()), len(chosen)) // 2
