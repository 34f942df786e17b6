"""Train in every way that an update can be cut, by the product, plain torch and TRL, and compare what comes out."""

import argparse
import json
import os
import shutil
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file

from core import PROJECT
from core.cli import say
from core.files import read_json, write_text
from core.model.base_model import SHIPPED
from core.program import run_module
from core.text.markdown import markdown_table
from research.baseline.setting import Cut, Request, Setting, write_targets

LOCK = PROJECT / "requirements/baseline.lock"
CODES = {"plain torch": "research.baseline.plain", "TRL": "research.baseline.trl_peer"}
CUTS = [Cut(*cut) for cut in product((1, 4, 16), (1, 2), (False, True))]
PLAIN_CUTS = [Cut(accumulation) for accumulation in (1, 4, 16)]
BEGIN, END = "<!-- begin: written by luffy research baseline -->", "<!-- end -->"


class Difference(NamedTuple):
    """The largest relative difference of a loss, of a gradient norm, and of the final weights.

    The weights are compared by the norm of their difference over the norm of what the training changed.
    """

    loss: float
    grad_norm: float
    weights: float


def difference(reference: Path, other: Path, base: Path) -> Difference:
    """Compare two trainings of the model ``base`` by their folders, which have updates.json and policy."""
    pairs = list(zip(read_json(reference / "updates.json"), read_json(other / "updates.json"), strict=True))
    loss, norm = (max(abs(b[part] / a[part] - 1) for a, b in pairs) for part in (0, 1))
    first, second, start = (
        load_file(folder / "model.safetensors") for folder in (reference / "policy", other / "policy", base)
    )
    names = [name for name in start if name in first and name in second]
    apart, moved = (
        torch.stack([(left[name].float() - right[name].float()).norm() for name in names]).norm()
        for left, right in ((first, second), (first, start))
    )
    return Difference(loss, norm, float(apart / moved))


class Audit:
    """The trainings of one audit in the folder ``work``; those that ended are not made again."""

    def __init__(self, work: Path, setting: Setting) -> None:
        self.work, self.setting = work, setting
        self.targets = write_targets(work / "targets.parquet")
        self.trl = work / "trl"

    def install(self) -> None:
        """Install TRL from its lock, in addition to the training interpreter's packages."""
        if not self.trl.is_dir():
            partial = self.trl.with_name("trl.partial")
            shutil.rmtree(partial, ignore_errors=True)
            self.run("pip", "install", "-q", "--no-deps", "--require-hashes", "-r", LOCK, "--target", partial)
            partial.rename(self.trl)

    def run(self, module: str, *arguments: object, with_trl: bool = True) -> None:
        """Run a module of the training interpreter to its end."""
        paths = os.pathsep.join([str(PROJECT), *([str(self.trl)] if with_trl else [])])
        run_module(module, *map(str, arguments), PYTHONPATH=paths, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")

    def train(self, code: str, cut: Cut) -> Path:
        """Return the folder of a training, made unless it is there."""
        out = self.work / code.replace(" ", "_") / str(cut).replace(" ", "_").replace(",", "")
        if not (out / "updates.json").is_file():
            shutil.rmtree(out, ignore_errors=True)
            say(f"{code}: {cut}")
            self.ours(out, cut) if code == "ours" else self.peer(CODES[code], out, cut)
        return out

    def peer(self, module: str, out: Path, cut: Cut) -> None:
        """Train by a program of the audit."""
        out.mkdir(parents=True)
        request = Request(str(self.targets), str(SHIPPED), str(out), cut, self.setting).write(out / "request.json")
        ranks = ["torch.distributed.run", "--nproc-per-node", str(cut.ranks), "-m"] if cut.ranks > 1 else []
        self.run(*ranks, module, str(request))

    def ours(self, out: Path, cut: Cut) -> None:
        """Train by the product's recipe ``sft``, without TRL: verl 0.9.1 would import a class that TRL 1 lacks."""
        setting = self.setting
        keys = {
            "data.train_batch_size": setting.batch,
            "data.shuffle": False,
            "data.max_prompt_length": 128,
            "data.max_response_length": 256,
            "trainer.total_training_steps": setting.steps,
            "trainer.save_freq": setting.steps,
            "trainer.n_gpus_per_node": cut.ranks,
            "ray_kwargs.ray_init.num_gpus": cut.ranks,
            "actor_rollout_ref.model.use_remove_padding": cut.packed,
            "actor_rollout_ref.actor.use_dynamic_bsz": False,
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": setting.batch // cut.accumulation // cut.ranks,
            "actor_rollout_ref.actor.optim.lr": setting.lr,
            "actor_rollout_ref.actor.optim.weight_decay": 0.0,
            "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": 0.0,
            "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
            "actor_rollout_ref.actor.optim.clip_grad": setting.clip,
        }
        files = ["--targets", self.targets, "--model", SHIPPED, "--out", out]
        sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        self.run("training", "--recipe", "sft", *files, *sets, with_trl=False)
        lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        metrics = [json.loads(line)["data"] for line in lines]
        updates = [[values["actor/sft_loss"], values["actor/grad_norm"]] for values in metrics]
        write_text(json.dumps(updates), out / "updates.json")

    def policy_losses(self) -> list[list[str]]:
        """Return the largest differences of loss and gradient over all cuts, by mean and code."""
        out = self.work / "policy_losses.json"
        self.run("research.baseline.policy_losses", out)
        largest: dict[tuple[str, str, str], list[float]] = {}
        for name, code, mode, _, *values in read_json(out):
            before = largest.setdefault((name, code, mode), [0.0, 0.0])
            largest[name, code, mode] = [max(pair) for pair in zip(before, values, strict=True)]
        return [[*names, *(f"{value:.0e}" for value in values)] for names, values in largest.items()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("steps", type=int)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    audit = Audit(given.work, Setting(steps=given.steps))
    audit.install()
    reference, rows = audit.train("plain torch", Cut()), []
    for code, cuts in {"plain torch": PLAIN_CUTS, "ours": CUTS, "TRL": CUTS}.items():
        for cut in cuts:
            apart = difference(reference, audit.train(code, cut), SHIPPED)
            rows.append([code, str(cut), *(f"{value:.0e}" for value in apart)])
    supervised = markdown_table(["trained by", "micro-batches", "loss", "gradient norm", "weights"], rows, left=(0, 1))
    policy = markdown_table(["mean", "code", "its name", "loss", "gradient"], audit.policy_losses(), left=(0, 1, 2))
    text = given.page.read_text(encoding="utf-8") if given.page.exists() else f"{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[-1]
    write_text(f"{before}{BEGIN}\n\n{supervised}\n\n{policy}\n\n{END}{after}", given.page)
    say(f"baseline: {given.page}")


if __name__ == "__main__":
    main()
