"""The numbers of one step of every method: signal, loss, gradients, metrics and the rows of the ledger."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from core.files import digest_bytes
from core.plugins.config_files import RECIPES, config_names
from training.algorithms.samples import Samples
from training.algorithms.term import EntropyBonus, Imitation, Loss
from training.config.to_verl import compose_run, method_of, mixed_options
from training.verl_hooks.loss import PHI, WEIGHTS, step_loss, supervised_loss
from training.verl_hooks.metrics import batch_metrics, update_counts
from training.verl_hooks.target_uses import target_uses

GROUPS, N, PROMPT, LIMIT, RANKS, STEP = 3, 8, 5, 10, 2, 7
CUTS = ((0, 24), (0, 3, 10, 12, 24), (0, 12, 17, 24))  # into micro-batches: of all rows, or of the halves of two ranks
SIZES = [
    "data.train_batch_size=3",
    f"actor_rollout_ref.rollout.n={N}",
    "data.max_prompt_length=8",
    f"data.max_response_length={LIMIT}",
    "actor_rollout_ref.actor.use_kl_loss=true",
]
TEACHER = ["teacher.model=base"]
SUPERVISED = ("sft", "dft")
# What no recipe chooses by itself: the recipe, and what is set.
MORE = {
    "phi": ("luffy", ["mixed.use_target_probs=true", "mixed.off_max_clip=0.8", "mixed.loss_remove_clip=false"]),
    "tis": ("luffy", ["mixed.rollout_correction.type=tis", "mixed.prefix.alpha=0.5", "mixed.prefix.beta=2.0"]),
    "with_sft": ("luffy", ["mixed.sft_multitask.use=true", "mixed.loss_agg_mode=published"]),
    "soft": ("hpt", ["mixed.gate.type=soft"]),
    "gmpo": ("on_policy", ["mixed.on_policy_loss=gmpo", "mixed.loss_agg_mode=constant"]),
    "sapo": ("on_policy", ["mixed.on_policy_loss=sapo", "mixed.loss_remove_clip=true"]),
    "dppo": ("on_policy", ["mixed.on_policy_loss=dppo", "mixed.all_max_clip=0.9"]),
    "dppo_kl": ("on_policy", ["mixed.on_policy_loss=dppo_kl", "mixed.loss_agg_mode=seq-mean-token-sum"]),
    "reshaped": (
        "luffy",
        ["mixed.on_policy_reshape=p_div_p", "mixed.off_policy_reshape=pow", "mixed.off_min_clip=0.1"],
    ),
}


def values() -> dict[str, Any]:
    """Return the numbers of each recipe, of what `MORE` sets and of ReLIFT's supervised step, with a digest of each."""
    recipes = {name: (name, TEACHER if name in ("opd", "luffy_opd", "opsd") else []) for name in config_names(RECIPES)}
    made = {name: step(*of) for name, of in (recipes | MORE).items() if name not in SUPERVISED}
    made |= {name: supervised(name) for name in SUPERVISED} | {"relift_update": relift_update()}
    digests = {
        f"local/{name}": digest_bytes(json.dumps(plain(value), sort_keys=True).encode()) for name, value in made.items()
    }
    return {name: plain(value, digits=8) for name, value in made.items()} | digests


def plain(value: Any, digits: int = 17) -> Any:
    """Return ``value`` with lists in the place of tensors, and numbers of so many digits."""
    if isinstance(value, dict):
        return {name: plain(part, digits) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part, digits) for part in value]
    if isinstance(value, torch.Tensor):
        return plain(value.tolist(), digits)
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def step(recipe: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return the numbers of one step of a recipe with ``settings``, of seeded samples."""
    config = compose_run(recipe, "cpu", [*SIZES, *settings], run=Path("run"))
    options, actor, method = mixed_options(config), config.actor_rollout_ref.actor, method_of(config)
    random = torch.Generator().manual_seed(3)
    samples = seeded_samples(options, random)
    if options.replay.use:
        method._store.started = True  # the loss from then on
    rows, lengths = samples.rows, samples.mask.sum(-1).tolist()
    signal = method.signal(samples, rows["rm_scores"], STEP)
    rest = {"counts": update_counts(samples.mask, signal.weights, 0.5), "coefficients": signal.coefficients}
    rest["loss"] = signal.loss
    fields = {name: rows[name] for name in ("response_mask", "old_log_probs")}
    fields |= {PHI: rows["off_policy_log_probs"]} if options.has_teacher_log_probs else {}
    fields |= {"advantages": signal.advantages, "rollout_is_weights": signal.ratio_weights}
    fields |= {f"{WEIGHTS}{name}": weight.expand(samples.mask.shape) for name, weight in signal.weights.items()}
    fields["ref_log_prob"] = -uniform(rows["old_log_probs"].shape, random) * 2
    loss = partial(step_loss, method.losses(), LIMIT)
    batch = {
        name: [value[row, :length].float() for row, length in enumerate(lengths)] for name, value in fields.items()
    }
    needs_entropy = actor.calculate_entropy or actor.entropy_coeff != 0
    return {
        "advantages": signal.advantages,
        "ratio_weights": signal.ratio_weights,
        "metrics": signal.metrics | batch_metrics(samples, STEP),
        "ledger": target_uses(samples, signal, method.losses()[signal.loss].terms, STEP + 1),
        **over_cuts(loss, batch, {"prefix_length": rows["prefix_length"]}, rest, lengths, random, needs_entropy),
    }


def uniform(shape: Sequence[int], random: torch.Generator) -> torch.Tensor:
    return torch.rand(tuple(shape), generator=random)


def seeded_samples(options: Any, random: torch.Generator) -> Samples:
    """Return groups of samples, of which some start with a target, and of which the first group is never solved."""
    total = GROUPS * N
    lengths = torch.randint(3, LIMIT + 1, (total,), generator=random)
    mask = (torch.arange(LIMIT) < lengths.unsqueeze(-1)).float()
    in_response = options.prefix.samples_of(N) if options.prefix.place == "response" else 0
    number = torch.arange(total) % N
    off_policy = (number < in_response) | ((number == 0) & options.replay.use)
    part = 1 if options.prefix.min == 1 else 2  # of the response, the target is all or the first half
    guided = (number < options.prefix.samples_of(N)) & (options.prefix.place == "prompt")
    solved = uniform((total,), random) < 0.4
    solved[:N] = off_policy[:N]
    old = -uniform(mask.shape, random) * 2 * mask
    unread = () if options.has_teacher_log_probs else ("off_policy_log_probs",)
    noise = torch.randn(mask.shape, generator=random) * 0.4
    rows = {
        "response_mask": mask,
        "old_log_probs": old,
        "rollout_log_probs": (old + noise) * mask,
        "entropy": uniform(mask.shape, random) * 2 * mask,
        "prefix_length": torch.where(off_policy, lengths // part, 0),
        "guided": guided.long(),
        "requests": (~off_policy).long(),
        "rollout_versions": torch.randint(STEP - 2, STEP + 1, mask.shape, generator=random),
        "rm_scores": torch.zeros(mask.shape).scatter_(1, lengths.unsqueeze(-1) - 1, solved.float().unsqueeze(-1)),
        "off_policy_log_probs": -uniform(mask.shape, random) * mask,
        "teacher_log_probs": -uniform(mask.shape, random) * 2 * mask,
        "solved": solved,
    }
    return Samples(
        TensorDict({name: values for name, values in rows.items() if name not in unread}, batch_size=total),
        np.array([f"g{row // N}" for row in range(total)], dtype=object),
        sampled=torch.arange(total) != total - 1,  # the last row fills up the batch
        sources=["a"] * total,
        errors=[""] * total,
        targets=["t" if length else "" for length in rows["prefix_length"].tolist()],
        numbers=number.tolist(),
        problems=[""] * total,
    )


def over_cuts(
    loss: Any,
    batch: dict[str, list[torch.Tensor]],
    scalars: dict[str, torch.Tensor],
    rest: dict[str, Any],
    lengths: list[int],
    random: torch.Generator,
    needs_entropy: bool,
) -> dict[str, Any]:
    """Return loss, gradients and metrics of an update that is cut into micro-batches in three ways."""
    wholes = [PROMPT + length for length in lengths]
    log_probs = [-uniform((whole,), random) * 2 for whole in wholes]
    entropies = [uniform((whole,), random) * 2 for whole in wholes]
    values: dict[str, Any] = {}
    for number, ends in enumerate(CUTS):
        totals: dict[str, float] = {}
        gradients: list[torch.Tensor] = []
        for first, last in pairwise(ends):
            given = {name: nested(column[first:last]) for name, column in batch.items()}
            given |= {name: column[first:last] for name, column in scalars.items()}
            tokens = sum(lengths) / RANKS
            data = tu.get_tensordict(given, {"dp_size": RANKS, "batch_num_tokens": tokens, **rest})
            offsets = torch.tensor([0, *np.cumsum(wholes[first:last])])
            leaves = [torch.cat(column[first:last]).requires_grad_() for column in (log_probs, entropies)]
            output = {
                name: torch.nested.nested_tensor_from_jagged(leaf, offsets)
                for name, leaf in zip(("log_probs", "entropy"), leaves, strict=True)
            }
            share, metrics = loss(output if needs_entropy else {"log_probs": output["log_probs"]}, data)
            share.backward()
            gradients += [leaf.grad for leaf in leaves if leaf.grad is not None]
            for name, value in {"loss": share, **{name: metric.values[0] for name, metric in metrics.items()}}.items():
                totals[name] = totals.get(name, 0.0) + float(value)
        values[f"cut_{number}"] = totals
        values[f"gradients_{number}"] = torch.cat(gradients)
    return values


def nested(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def supervised(recipe: str) -> dict[str, Any]:
    """Return loss, gradient and figures of a supervised update."""
    config = compose_run(recipe, "cpu", [], run=Path("run"))
    random = torch.Generator().manual_seed(4)
    lengths = torch.randint(4, 12, (6,), generator=random).tolist()
    masks = [(torch.arange(length) >= 2).long() for length in lengths]
    leaf = (-uniform((sum(lengths),), random)).requires_grad_()
    fields = {"loss_mask": nested(masks), "row": nested([torch.tensor([row]) for row in range(6)])}
    data = tu.get_tensordict(fields, {"dp_size": RANKS, "batch_num_tokens": 20})
    offsets = torch.tensor([0, *np.cumsum(lengths)])
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(leaf, offsets)}
    loss, metrics = supervised_loss(mixed_options(config).sft_multitask.weight, output, data)
    loss.backward()
    return {"loss": loss, "gradients": leaf.grad, "uses": metrics["uses"]}


def relift_update() -> dict[str, Any]:
    """Return loss and gradients of a supervised step between those by RL."""
    random = torch.Generator().manual_seed(5)
    lengths = torch.randint(3, LIMIT, (24,), generator=random).tolist()
    masks = [torch.ones(length) for length in lengths]
    rest = {"coefficients": {"sft_loss": 1.0, "entropy_loss": -0.001}, "loss": "supervised"}
    rest["counts"] = {"valid": (0.0, 24)}
    loss = partial(step_loss, {"supervised": Loss((Imitation(), EntropyBonus()), "token-mean")}, LIMIT)
    values = over_cuts(loss, {"response_mask": masks}, {}, rest, lengths, random, True)
    for number in range(len(CUTS)):
        values[f"cut_{number}"] = {name: values[f"cut_{number}"][name] for name in ("loss", "sft_loss")}
    return values
