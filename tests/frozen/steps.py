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
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
from training.methods import method_path
from training.methods.exgrpo import Exgrpo
from training.methods.guided import Guided
from training.methods.method import Method
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
    "method.reference={}",
]
TEACHER = ["method.teacher.model=base"]
SUPERVISED = ("sft", "dft")
# What no recipe chooses by itself: the recipe, and what is set.
MORE = {
    "phi": ("luffy", ["method.off_policy={phi: recorded, max: 0.8}", "method.on_policy.clip={}"]),
    "tis": ("luffy", ["method.correction.type=tis", "method.alpha=0.5", "method.beta=2.0"]),
    "with_sft": ("luffy", ["method.imitation={}", "method.reduce.type=published"]),
    "soft": ("hpt", ["method.gate.type=soft"]),
    "gmpo": ("on_policy", ["method.on_policy.type=gmpo", "method.reduce.type=constant"]),
    "sapo": ("on_policy", ["method.on_policy.type=sapo"]),
    "dppo": ("on_policy", ["method.on_policy.type=dppo", "method.all_max_clip=0.9"]),
    "dppo_kl": ("on_policy", ["method.on_policy.type=dppo_kl", "method.reduce.type=seq-mean-token-sum"]),
    "reshaped": (
        "luffy",
        ["method.on_policy.reshape.type=p_div_p", "method.off_policy={reshape: {type: pow}, min: 0.1}"],
    ),
}


def values() -> dict[str, Any]:
    """Return the numbers of each recipe, of what `MORE` sets and of ReLIFT's supervised step, with a digest of each."""
    recipes = {
        name: (name, TEACHER if name in ("opd", "luffy_opd", "opsd", "exopd") else []) for name in config_names(RECIPES)
    }
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
    actor, method = config.actor_rollout_ref.actor, of_run(config)
    random = torch.Generator().manual_seed(3)
    samples = seeded_samples(method, random)
    if isinstance(method, Exgrpo):
        method._started = True  # the loss from then on
    rows, lengths = samples.rows, samples.mask.sum(-1).tolist()
    signal = method.signal(samples, rows["rm_scores"], STEP)
    rest = {"counts": update_counts(samples.mask, signal.weights, 0.5), "coefficients": signal.coefficients}
    rest["loss"] = signal.loss
    fields = {name: rows[name] for name in ("response_mask", "old_log_probs")}
    fields |= {PHI: rows["off_policy_log_probs"]} if "off_policy_log_probs" in method.fields() else {}
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


def seeded_samples(method: Method, random: torch.Generator) -> Samples:
    """Return groups of samples, of which some start with a target, and of which the first group is never solved."""
    total = GROUPS * N
    lengths = torch.randint(3, LIMIT + 1, (total,), generator=random)
    mask = (torch.arange(LIMIT) < lengths.unsqueeze(-1)).float()
    number, shown = torch.arange(total) % N, isinstance(method, Guided) and method.shown
    first = number < method.off_policy_samples(N)
    off_policy = (first & (not shown)) | ((number == 0) & isinstance(method, Exgrpo))
    # Of the response, the target is all or the first half.
    part = 1 if not isinstance(method, Guided) or method.prefix.min == 1 else 2
    guided = first & shown
    solved = uniform((total,), random) < 0.4
    solved[:N] = off_policy[:N]
    old = -uniform(mask.shape, random) * 2 * mask
    unread = {"off_policy_log_probs"} - set(method.fields())
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
        "ref_log_prob": old / 2,
    }
    return Samples(
        TensorDict({name: values for name, values in rows.items() if name not in unread}, batch_size=total),
        np.array([f"g{row // N}" for row in range(total)], dtype=object),
        sampled=torch.arange(total) != total - 1,  # the last row fills up the batch
        sources=["a"] * total,
        errors=[""] * total,
        targets=["t" if length else "" for length in rows["prefix_length"].tolist()],
        numbers=number.tolist(),
        limit=LIMIT,
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
    columns = {"loss_mask": nested(masks), "row": nested([torch.tensor([row]) for row in range(6)])}
    data = tu.get_tensordict(columns, {"dp_size": RANKS, "batch_num_tokens": 20})
    offsets = torch.tensor([0, *np.cumsum(lengths)])
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(leaf, offsets)}
    method = method_path(config.method.type), of_run(config).model_dump_json()
    loss, metrics = supervised_loss(*method, output, data)
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
