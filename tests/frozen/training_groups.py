"""The groups that need torch and verl: ``python training_groups.py GROUP FILE``."""

import json
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from core import PROJECT
from core.files import digest_file
from core.plugins.config_files import HARDWARE, RECIPES, config_names
from training.algorithms.samples import Samples
from training.algorithms.term import EntropyBonus, Imitation, Loss
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
from training.config.verl_keys import leaf_values
from training.methods import method_path
from training.methods.exgrpo import Exgrpo
from training.methods.guided import Guided
from training.methods.method import Method
from training.verl_hooks.loss import PHI, WEIGHTS, step_loss, supervised_loss
from training.verl_hooks.metrics import batch_metrics, update_counts
from training.verl_hooks.target_uses import target_uses

yaml.SafeLoader = yaml.CSafeLoader  # three times as fast, and reads the same
RAY = re.compile(r"/[^/']+/ray/")  # the folder in which verl expects Ray's files
INPUTS = Path(__file__).resolve().parents[1] / "golden/frozen/inputs"
N, PROMPT, LIMIT, RANKS, STEP = 8, 5, 10, 2, 7
CUTS = ((0, 24), (0, 3, 10, 12, 24), (0, 12, 17, 24))  # into micro-batches: of all rows, or of the halves of two ranks
SIZES = ["data.train_batch_size=3", f"actor_rollout_ref.rollout.n={N}", "data.max_prompt_length=8"]
SIZES += [f"data.max_response_length={LIMIT}", "method.reference={}"]
FIGURES = ("actor/", "replay/", "relift/", "groups/", "reward/", "batch/")


@cache
def read(name: str) -> dict[str, Any]:
    return json.loads((INPUTS / f"{name}.json").read_text(encoding="utf-8"))


def steps() -> dict[str, Any]:
    """The numbers of a step of each recipe, of other settings of some, and of ReLIFT's supervised step."""
    recipes = {name: (name, []) for name in config_names(RECIPES)} | read("steps")
    made = {name: supervised(name) if name in ("sft", "dft") else step(*of) for name, of in recipes.items()}
    return plain(made | {"relift_update": relift_update()})


def plain(value: Any) -> Any:
    """``value`` with lists in the place of tensors, and numbers of eight digits."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def step(recipe: str, settings: Sequence[str]) -> dict[str, Any]:
    """Advantages, metrics, ledger, loss and gradients of one step of a recipe with ``settings``."""
    config = compose_run(recipe, "cpu", [*SIZES, *settings], run=Path("run"))
    actor, method, given = config.actor_rollout_ref.actor, of_run(config), read("samples")["policy"]
    samples = samples_of(method, given)
    if isinstance(method, Exgrpo):
        method._started = True  # the loss from then on
    signal, rows = method.signal(samples, samples.rows["rm_scores"], STEP), samples.rows
    fields = {name: rows[name] for name in ("response_mask", "old_log_probs", "prefix_length")}
    fields |= {PHI: rows["off_policy_log_probs"]} if "off_policy_log_probs" in method.fields() else {}
    fields |= {"advantages": signal.advantages, "rollout_is_weights": signal.ratio_weights}
    fields |= {f"{WEIGHTS}{name}": weight.expand(samples.mask.shape) for name, weight in signal.weights.items()}
    fields["ref_log_prob"] = torch.tensor(given["ref_log_prob"])
    rest = {"counts": update_counts(samples.mask, signal.weights, 0.5), "coefficients": signal.coefficients}
    needs_entropy = actor.calculate_entropy or actor.entropy_coeff != 0
    loss = partial(step_loss, method.losses(), LIMIT)
    return {
        "advantages": signal.advantages,
        "ratio_weights": signal.ratio_weights,
        "metrics": signal.metrics | batch_metrics(samples, STEP),
        "ledger": target_uses(samples, signal, method.losses()[signal.loss].terms, STEP + 1),
        **over_cuts(loss, fields, rest | {"loss": signal.loss}, given, needs_entropy=needs_entropy),
    }


def samples_of(method: Method, given: dict[str, Any]) -> Samples:
    """Three groups of samples, of which some start with a target, and of which the first is never solved."""
    lengths, solved = torch.tensor(given["lengths"]), torch.tensor(given["solved"])
    total = len(lengths)
    mask = (torch.arange(LIMIT) < lengths.unsqueeze(-1)).float()
    number, shown = torch.arange(total) % N, isinstance(method, Guided) and method.shown
    first = number < method.off_policy_samples(N)
    off_policy = (first & (not shown)) | ((number == 0) & isinstance(method, Exgrpo))
    part = 1 if not isinstance(method, Guided) or method.prefix.min == 1 else 2  # the target is all of it, or a half
    solved[:N] = off_policy[:N]
    rows = {name: torch.tensor(values) for name, values in given["rows"].items()} | {
        "response_mask": mask,
        "prefix_length": torch.where(off_policy, lengths // part, 0),
        "guided": (first & shown).long(),
        "requests": (~off_policy).long(),
        "rm_scores": torch.zeros(mask.shape).scatter_(1, lengths.unsqueeze(-1) - 1, solved.float().unsqueeze(-1)),
        "solved": solved,
    }
    rows["ref_log_prob"] = rows["old_log_probs"] / 2
    if "off_policy_log_probs" not in method.fields():
        del rows["off_policy_log_probs"]
    return Samples(
        TensorDict(rows, batch_size=total),
        np.array([f"g{row // N}" for row in range(total)], dtype=object),
        sampled=torch.arange(total) != total - 1,  # the last row fills up the batch
        sources=["a"] * total,
        errors=[""] * total,
        targets=["t" if length else "" for length in rows["prefix_length"].tolist()],
        numbers=number.tolist(),
        limit=LIMIT,
    )


def over_cuts(
    loss: Any, fields: dict[str, torch.Tensor], rest: dict[str, Any], given: dict[str, Any], *, needs_entropy: bool
) -> dict[str, Any]:
    """Loss, gradients and metrics of an update that is cut into micro-batches in three ways."""
    lengths, values = given["lengths"], dict[str, Any]()
    names = {"log_probs": "log_probs", "entropy": "entropies"}
    for number, ends in enumerate(CUTS):
        totals, gradients = Counter[str](), list[torch.Tensor]()
        for cut in (slice(*pair) for pair in pairwise(ends)):
            batch = {
                name: nested(list(zip(of[cut].float(), lengths[cut], strict=True))) if of.dim() > 1 else of[cut]
                for name, of in fields.items()
            }
            data = tu.get_tensordict(batch, {"dp_size": RANKS, "batch_num_tokens": sum(lengths) / RANKS, **rest})
            output = {
                name: jagged([torch.tensor(row) for row in given[column][cut]])
                for name, column in names.items()
                if name != "entropy" or needs_entropy
            }
            share, metrics = loss({name: rows for name, (rows, _) in output.items()}, data)
            share.backward()
            gradients += [leaf.grad for _, leaf in output.values() if leaf.grad is not None]
            totals.update({"loss": share.item()} | {name: float(metric.values[0]) for name, metric in metrics.items()})
        values |= {f"cut_{number}": dict(totals), f"gradients_{number}": torch.cat(gradients)}
    return values


def nested(rows: Sequence[tuple[torch.Tensor, int]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([row[:length] for row, length in rows], layout=torch.jagged)


def jagged(rows: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of several lengths, and the tensor of all their numbers, which gets the gradients."""
    leaf = torch.cat(list(rows)).requires_grad_()
    offsets = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
    return torch.nested.nested_tensor_from_jagged(leaf, offsets), leaf


def supervised(recipe: str) -> dict[str, Any]:
    """Loss, gradient and figures of a supervised update."""
    config, given = compose_run(recipe, "cpu", [], run=Path("run")), read("samples")["supervised"]
    masks = [((torch.arange(length) >= 2).long(), length) for length in given["lengths"]]
    columns = {"loss_mask": nested(masks), "row": nested([(torch.tensor([row]), 1) for row in range(len(masks))])}
    data = tu.get_tensordict(columns, {"dp_size": RANKS, "batch_num_tokens": 20})
    log_probs, leaf = jagged(torch.tensor(given["log_probs"]).split(given["lengths"]))
    method = method_path(config.method.type), of_run(config).model_dump_json()
    loss, metrics = supervised_loss(*method, {"log_probs": log_probs}, data)
    loss.backward()
    return {"loss": loss, "gradients": leaf.grad, "uses": metrics["uses"]}


def relift_update() -> dict[str, Any]:
    """Loss and gradients of a supervised step between those by RL."""
    rest = {"coefficients": {"sft_loss": 1.0, "entropy_loss": -0.001}, "loss": "supervised"}
    loss = partial(step_loss, {"supervised": Loss((Imitation(), EntropyBonus()), "token-mean")}, LIMIT)
    fields = {"response_mask": torch.ones(24, LIMIT)}
    counts = {"counts": {"valid": (0.0, 24)}}
    values = over_cuts(loss, fields, rest | counts, read("samples")["relift_update"], needs_entropy=True)
    return {
        key: {name: part[name] for name in ("loss", "sft_loss")} if key.startswith("cut_") else part
        for key, part in values.items()
    }


def configurations() -> dict[str, Any]:
    """The values that most resolved configurations of a recipe on a hardware have, and the others of each."""
    pairs = [(recipe, hardware) for recipe in config_names(RECIPES) for hardware in config_names(HARDWARE)]
    resolved = {f"{recipe} on {hardware}": resolve(recipe, hardware) for recipe, hardware in pairs}
    seen = Counter(item for one in resolved.values() for item in one.items())
    shared = {key: value for (key, value), count in seen.items() if count > len(pairs) / 2}
    missing = {name: dict.fromkeys(sorted(shared.keys() - one.keys()), "(absent)") for name, one in resolved.items()}
    others = {name: dict(sorted(one.items() - shared.items())) for name, one in resolved.items()}
    return {"shared": shared} | {name: other | missing[name] for name, other in others.items()}


def resolve(recipe: str, hardware: str) -> dict[str, str]:
    """Each key of a configuration with its value as text, without the folders of this machine."""
    teacher = ["method.teacher.model=base"] if recipe in ("opd", "luffy_opd", "exopd") else []
    config = compose_run(recipe, hardware, teacher, run=Path("run"))
    flat = leaf_values(OmegaConf.to_container(config, resolve=True))
    return {key: RAY.sub("RAY/", repr(value).replace(str(PROJECT), "PROJECT")) for key, value in flat}


def trainings() -> dict[str, Any]:
    """The figures of three steps of six methods, and a digest of their weights; ExGRPO is interrupted once."""
    sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "tests/integration")]
    from training_inputs import write_targets
    from training_runs import Training

    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for recipe, (split, settings) in read("trainings").items():
            targets = write_targets(folder / f"{split}.parquet", 16, split=split)
            start = partial(Training, folder / recipe, targets, recipe, trainer__total_training_steps="3", **settings)
            run = start()
            if recipe == "exgrpo":
                run.wait_for_step(2)
                run.process.send_signal(signal.SIGTERM)
                run.end()
                run = start()
            if run.end():
                sys.exit(f"{recipe}: {run.said}")
            figures = [{key: step["data"][key] for key in sorted(step["data"])} for step in run.metrics()]
            made[recipe] = [
                {key: round(value, 9) for key, value in step.items() if key.startswith(FIGURES) and "/perf/" not in key}
                for step in figures
            ]
            made[f"local/{recipe}"] = digest_file(run.out / "policy" / "model.safetensors")
    return made


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(globals()[sys.argv[1]]()), encoding="utf-8")
