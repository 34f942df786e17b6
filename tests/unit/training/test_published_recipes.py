"""The recipes of other methods have the loss and the gradient of the published implementations, on the same batch.

The formulas of those are in `published_formulas`. Where they depend on the cut of a batch into micro-batches and ranks,
`published` reproduces that, the mode of the recipe has it at the published sizes, and no cut matters to the recipe.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from published_formulas import LIMIT, MEANS, SUMS, Batch, batch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from training.algorithms.aggregate import BatchSize, Reduce, agg_loss, agg_mean
from training.algorithms.samples import Samples
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
from training.methods.on_policy import OnPolicy
from training.verl_hooks.loss import WEIGHTS, step_loss
from training.verl_hooks.metrics import update_counts

RECIPES = SUMS | MEANS
CUTS = [(ranks, micro_batches) for ranks in (1, 2) for micro_batches in (1, 3, 5)]
TOLERANCE = 1e-5


@cache
def composed(recipe: str) -> OnPolicy:
    method = of_run(compose_run(recipe.split()[0], "cpu", [], run=Path("run")))
    assert isinstance(method, OnPolicy)
    return method


def nested(rows: Iterable[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def step(made: Batch, method: OnPolicy) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The fields and the counts of an update, by what the trainer does with samples."""
    rewards = torch.zeros(made.mask.shape, dtype=torch.float64)
    rewards[torch.arange(len(rewards)), made.lengths - 1] = made.solved.double()
    with torch.no_grad():
        _, entropy = made.predict(torch.arange(len(rewards)))
    rows = {
        "response_mask": made.mask.long(),
        "rm_scores": rewards,
        "solved": made.solved,
        "old_log_probs": made.old,
        "rollout_log_probs": made.old,
        "entropy": entropy,
        "prefix_length": made.prefix,
        "rollout_versions": torch.zeros(made.mask.shape, dtype=torch.long),
        "off_policy_log_probs": made.stored,
    }
    samples = Samples(
        TensorDict(rows, batch_size=len(rewards)),
        made.group.numpy(),
        torch.ones(len(rewards), dtype=torch.bool),
        limit=LIMIT,
    )
    signal = method.signal(samples, rewards, 0)
    weights = {f"{WEIGHTS}{name}": values for name, values in signal.weights.items()}
    fields = {**rows, **weights, "ref_log_prob": made.reference, "advantages": signal.advantages, "phi": made.stored}
    fields["rollout_is_weights"] = signal.ratio_weights
    counts = {"counts": update_counts(samples.mask, signal.weights, 1.0), "coefficients": signal.coefficients}
    return fields, counts | {"batch_num_tokens": int(made.mask.sum())}


def shares(recipe: str, mode: str | None, cut: Iterable[Tensor], ranks: int, made: Batch) -> Tensor:
    """The loss of a rank that has the micro-batches ``cut``."""
    method = composed(recipe)
    if mode:
        method = method.model_copy(update={"reduce": Reduce.model_validate({"type": mode})})
    fields, rest = step(made, method)
    rest |= {"dp_size": ranks, "loss": "clipped" if recipe.endswith("before replay") else "policy"}
    total = torch.zeros((), dtype=torch.float64)
    jagged = [
        "response_mask",
        "old_log_probs",
        "advantages",
        "rollout_is_weights",
        "ref_log_prob",
        *(["phi"] if "off_policy_log_probs" in method.fields() else []),
        *(name for name in fields if name.startswith(WEIGHTS)),
    ]
    for rows in cut:
        if not len(rows):
            continue
        data: dict[str, Any] = {
            name: nested(fields[name].expand(made.mask.shape)[row, : made.lengths[row]] for row in rows)
            for name in jagged
            if name in fields
        }
        data["prompts"] = nested(torch.zeros(1) for _ in rows)
        data["responses"] = data["response_mask"]
        data["prefix_length"] = made.prefix[rows]
        log_prob, entropy = made.predict(rows)
        output = {
            name: nested(torch.cat([values[n, : made.lengths[row]], values.new_zeros(1)]) for n, row in enumerate(rows))
            for name, values in (("log_probs", log_prob), ("entropy", entropy))
        }
        loss, _ = step_loss(method.losses(), LIMIT, output, tu.get_tensordict(data, rest))
        total = total + loss
    return total


def theirs(recipe: str, cut: Iterable[Tensor], made: Batch) -> Tensor:
    formula, _ = RECIPES[recipe]
    losses = [formula(made, rows) for rows in cut if len(rows)]
    return torch.stack(losses).sum()


def difference(ours: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> float:
    """The largest relative difference of losses, and of gradients by their norm."""
    (loss, gradient), (other, other_gradient) = ours, expected
    return max(
        float((loss - other).abs() / other.abs()), float((gradient - other_gradient).norm() / other_gradient.norm())
    )


def average(losses: Iterable[Tensor], made: Batch) -> tuple[Tensor, Tensor]:
    """Loss and gradient averaged over the ranks, as FSDP does."""
    loss = torch.stack(list(losses)).mean()
    (gradient,) = torch.autograd.grad(loss, made.table)
    return loss.detach(), gradient


@cache
def differences(recipe: str, ranks: int) -> dict[tuple[str, int], float]:
    """By mode and micro-batches: the difference from the published formulas on this number of ranks.

    A rank knows of the others what the counts of the batch say, so that one process computes all of them.
    """
    _, prefixes = RECIPES[recipe]
    made = batch(prefixes, sizes=(4, len(prefixes)))
    rows = torch.arange(len(made.mask))
    whole = average([theirs(recipe, [rows], made)], made)
    alone = average([shares(recipe, None, [rows], 1, made)], made)
    found = {}
    for micro_batches in (1, 3, 5):
        cuts = [mine.tensor_split(micro_batches) for mine in rows.chunk(ranks)]
        own = average([shares(recipe, None, cut, ranks, made) for cut in cuts], made)
        found["own", micro_batches] = difference(own, alone if recipe in SUMS else whole)
        if recipe in SUMS:
            published = average([shares(recipe, "published", cut, ranks, made) for cut in cuts], made)
            expected = average([theirs(recipe, cut, made) for cut in cuts], made)
            found["published", micro_batches] = difference(published, expected)
    return found


@pytest.mark.parametrize("recipe", SUMS)
@pytest.mark.parametrize(("ranks", "micro_batches"), CUTS)
def test_a_recipe_that_sums_is_published_where_the_cut_matters_and_itself_where_it_does_not(
    recipe: str, ranks: int, micro_batches: int
) -> None:
    assert differences(recipe, ranks)["published", micro_batches] < TOLERANCE
    assert differences(recipe, ranks)["own", micro_batches] < TOLERANCE


@pytest.mark.parametrize("recipe", MEANS)
@pytest.mark.parametrize(("ranks", "micro_batches"), CUTS)
def test_a_recipe_of_means_is_published_for_any_cut(recipe: str, ranks: int, micro_batches: int) -> None:
    assert differences(recipe, ranks)["own", micro_batches] < TOLERANCE


@pytest.mark.parametrize("recipe", SUMS)
def test_a_recipe_that_sums_is_published_at_the_published_sizes(recipe: str) -> None:
    """512 rows that count on 8 ranks, each of which fills two micro-batches with 4 limits of tokens."""
    if recipe == "hpt":  # of three prompts one is solved and leaves its two samples; the others leave their targets
        made = batch([-1, 0, 0], sizes=(384, 3), equal=LIMIT // 8)
        made.solved = (made.prefix > 0) | (made.group % 3 == 0) & (torch.arange(len(made.group)) % 3 == 1)
        order = torch.nonzero((made.prefix > 0) == (made.group % 3 > 0)).flatten()
    else:
        made = batch([0 if RECIPES[recipe][1][0] == 0 else -1, 0], sizes=(256, 2), equal=LIMIT // 8)
        order = torch.arange(512)
    ranks = [theirs(recipe, rows.chunk(2), made) for rows in order.view(8, 64)]
    expected = average(ranks, made)
    ours = average([shares(recipe, None, [torch.arange(len(made.mask))], 1, made)], made)
    assert difference(ours, expected) < TOLERANCE


def simulated_weight(solved: float, length: int, draw: torch.Generator) -> float:
    """Of an update of 512 rows: the published weight of a target's token over that of an on-policy one.

    A solved prompt leaves eight samples of ``length`` tokens, another one its target of 4,000.
    """
    prompts = round(512 / (8 * solved + 1 - solved))
    own, targets = round(8 * prompts * solved), round(prompts * (1 - solved))
    rows = torch.tensor([length] * own + [4000] * targets)
    totals = []
    for _ in range(200):
        means = 0.0
        for rank in torch.randperm(len(rows), generator=draw).chunk(8):
            for micro in rank.tensor_split(-(-int(rows[rank].sum()) // 32768)):
                means += float((rows[micro] == 4000).any())
        totals.append(means / 8)
    return (sum(totals) / len(totals) / (4000 * targets)) * 8 * 8192


@pytest.mark.parametrize("solved", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("length", [900, 2000, 3000])
def test_the_two_losses_of_hpt_weigh_as_published_in_expectation(solved: float, length: int) -> None:
    """With the published packing, in which a micro-batch without a target has no supervised loss."""
    prompts = round(512 / (8 * solved + 1 - solved))
    own, targets = round(8 * prompts * solved), round(prompts * (1 - solved))
    tokens, rows = own * length + targets * 4000, own + targets
    sizes = {"batch_tokens": tokens, "batch_sequences": rows, "response_length": 8192}
    one, mask = torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    policy = agg_loss(one, mask, "seq64-mean-token-sum-norm-occupied", BatchSize(tokens, rows, **sizes))
    supervised = agg_mean(one, mask, "seq64-mean-token-sum-norm-occupied", BatchSize(4000 * targets, targets, **sizes))
    published = simulated_weight(solved, length, torch.Generator().manual_seed(1))
    assert float(supervised / policy) == pytest.approx(published, rel=0.12)
