"""One run as one tree: what composes, and what a mistake is told before anything starts."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch
import yaml
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import kl_penalty

from core.errors import InputError
from grading.grader import TRUNCATED
from training.__main__ import main
from training.algorithms.regularize import Estimator
from training.config import kinds as words
from training.config.compose import compose
from training.config.kinds import text_of
from training.config.overrides import read_by
from training.config.run import Reward, settable
from training.config.to_verl import compose_run, verl_defaults
from training.config.verl_keys import kinds, within

RUN = Path("run")
ROOT = Path(__file__).resolve().parents[3]
ASYNC, ROUTER = "rollouts.type=separate_async", "actor_rollout_ref.rollout.router_config_path"
# Keys that verl reads and its file does not have.
ADDED = (
    "actor_rollout_ref.rollout.enable_sleep_mode",
    *(f"actor_rollout_ref.{role}.fsdp_config.mixed_precision" for role in ("actor", "ref")),
)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("lr=1", "unknown key 'lr': did you mean 'actor_rollout_ref.actor.optim.lr'?"),
        ("trainer.total_steps=2", "unknown key 'trainer.total_steps': did you mean 'trainer.total_training_steps'?"),
        ("learning_rate=2", "unknown key 'learning_rate': did you mean 'actor_rollout_ref.actor.optim.lr'?"),
        ("batch_size=2", "unknown key 'batch_size': did you mean 'data.train_batch_size'?"),
        ("data={train_batchsize: 3}", "unknown key 'data.train_batchsize': did you mean 'data.train_batch_size'?"),
        ("zzz=4", "unknown key 'zzz': luffy train --print-config prints those there are"),
        (
            "actor_rollout_ref.actor={grad_clip: 1}",
            "actor_rollout_ref.actor.grad_clip cannot be set: use actor_rollout_",
        ),
        ("critic.optim.lr=1", "critic.optim.lr cannot be set: there is no critic"),
        ("algorithm.adv_estimator=gae", "algorithm.adv_estimator cannot be set: use method.advantage.baseline"),
        (
            "actor_rollout_ref.rollout.name=sglang",
            "actor_rollout_ref.rollout.name cannot be set, because every run sets",
        ),
        ("trainer.balance_batch=true", "trainer.balance_batch cannot be set, because no run reads it"),
        ("rollouts.max_staleness=2", "rollouts.max_staleness has no effect with rollouts.type=sync: set that to coloc"),
        (
            "rollouts.type=colocate_async rollouts.gpus=2",
            "rollouts.gpus has no effect with rollouts.type=colocate_async",
        ),
        ("rollouts.type=async", "rollouts.type: got 'async', expected one of sync, colocate_async, separate_async"),
        (f"{ASYNC} rollouts.gpus=0", "rollouts.gpus: got 0, expected auto, or a whole number from 1"),
        (f"{ASYNC} rollouts.stale_samples=keep", "rollouts.stale_samples: got 'keep', expected one of wait, drop"),
        ("data=5", "data: got 5, expected a mapping of its keys"),
        ("actor_rollout_ref=5", "actor_rollout_ref: got 5, expected a mapping of its keys"),
        ("method=null", "method: got None, expected a mapping of its keys"),
        ("data.seed=1.5", "data.seed: got 1.5, expected a whole number from 0"),
        ("data.shuffle=null", "data.shuffle: got None, expected true or false"),
        ("reward.truncated=half", "reward.truncated: got 'half', expected one of zero, by_text"),
        ("run.trackers=null", "run.trackers: got None, expected a list"),
        (
            "actor_rollout_ref.actor.optim.lr=nan",
            "actor_rollout_ref.actor.optim.lr: got 'nan', expected a number above 0",
        ),
        ("actor_rollout_ref.rollout.n=null", "actor_rollout_ref.rollout.n: got None, expected a whole number from 1"),
        (
            "actor_rollout_ref.actor.ppo_mini_batch_size=${data.sample_target_ratio}",
            "actor_rollout_ref.actor.ppo_mini_batch_size: got 1.0, expected a whole number from 1",
        ),
        ("actor_rollout_ref.rollout.n=${nope}", "configuration: Interpolation key 'nope' not found"),
        ("data.seed", "--set data.seed: expected KEY=VALUE"),
        ("run.trackers=[mlflow", "--set run.trackers=[mlflow: not YAML"),
        (
            "data.train_batch_size=9 actor_rollout_ref.actor.ppo_mini_batch_size=2",
            "data.train_batch_size=9 and actor_rollout_ref.actor.ppo_mini_batch_size=2 contradict each other",
        ),
        (
            "actor_rollout_ref.rollout.max_model_len=99",
            "actor_rollout_ref.rollout.max_model_len=99 and data.max_prompt",
        ),
        (
            "actor_rollout_ref.actor.use_dynamic_bsz=false",
            "actor_rollout_ref.actor.use_dynamic_bsz=false: micro-batches then have a fixed number of rows",
        ),
        (f"{ASYNC} {ROUTER}=mine.yaml", f"{ROUTER}=mine.yaml and rollouts.type=separate_async contradict each other"),
        ("policy.source=best", "policy.source=best and trainer.test_freq=-1 contradict each other"),
        ("data.order=easy_first data.train_max_samples=8", "data.order=easy_first and data.train_max_samples=8 contra"),
        (
            "first_stage={recipe: sft}",
            "first_stage: the recipe luffy has one stage, and an override cannot add another",
        ),
        ("actor_rollout_ref.rollout.n=1", "actor_rollout_ref.rollout.n=1: the advantage of a sample is its distance"),
        (
            "actor_rollout_ref.rollout.n=2 method.prefix.n=2",
            "method.prefix.n=2 and actor_rollout_ref.rollo",
        ),
    ],
)
def test_a_mistake_is_one_message_that_begins_with_the_key(overrides: str, message: str) -> None:
    given = [overrides] if "{" in overrides or "[" in overrides else overrides.split(" ")
    with pytest.raises(InputError, match=f"^{re.escape(message)}") as raised:
        compose_run("luffy", "cpu", given, run=RUN)
    assert "\n" not in str(raised.value)


def test_the_keys_of_verl_are_in_its_file_with_values_of_their_kind() -> None:
    defaults = OmegaConf.create(verl_defaults())
    for key, kind in kinds().items():
        value = OmegaConf.select(defaults, key, default=ADDED)
        assert (value is ADDED) == (key in ADDED), key
        if value is not ADDED:
            held = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            assert kind.holds(held), (key, held, kind.text)
    with pytest.raises(AssertionError, match="is no kind of value"):
        words.kind("a numbr")


def test_the_estimates_of_the_divergence_are_verls() -> None:
    one = torch.zeros(1, 1)
    for name in get_args(Estimator):
        kl_penalty(one, one, name)
    for key in ("reference.type", "reward_kl.estimator"):
        with pytest.raises(InputError, match=f"^method.{key}: Input should be 'kl', "):
            compose_run("luffy", "cpu", [f"method.{key}=full"], run=RUN)


def test_a_key_that_only_a_gpu_may_read_is_an_error_on_a_cpu_and_told_on_a_gpu() -> None:
    text = "actor_rollout_ref.rollout.multi_stage_wake_up=true"
    with pytest.raises(InputError, match="multi_stage_wake_up cannot be set, because no run reads it"):
        compose("luffy", "cpu", [text])
    assert compose("luffy", "gpu", [text]).run.unread() == [text.partition("=")[0]]
    with pytest.raises(InputError, match="unknown key"):
        compose("luffy", "gpu", [text.replace("wake", "woke")])


def test_another_type_replaces_a_section_whatever_the_order() -> None:
    for overrides in ([ASYNC, "rollouts.max_staleness=4"], ["rollouts.max_staleness=4", ASYNC]):
        assert compose("luffy", "cpu", overrides).run.rollouts.model_dump()["max_staleness"] == 4
    assert compose("luffy", "cpu", [ASYNC, "rollouts.gpus=2", "rollouts.type=sync"]).run.rollouts.type == "sync"


def test_a_key_that_another_switches_off_is_refused_unless_that_is_switched_on() -> None:
    for key, switch in (
        ("actor_rollout_ref.model.lora_alpha=16", "actor_rollout_ref.model.lora_rank=8"),
        ("actor_rollout_ref.rollout.val_kwargs.top_p=1.0", "trainer.test_freq=5"),
        ("actor_rollout_ref.actor.optim.min_lr_ratio=0.1", "actor_rollout_ref.actor.optim.lr_scheduler_type=cosine"),
    ):
        compose("luffy", "cpu", [key, switch])
        with pytest.raises(InputError, match=rf"^{key} has no effect with {switch.partition('=')[0]}="):
            compose("luffy", "cpu", [key])


def test_sections_that_are_handed_on_take_any_key() -> None:
    given = ["machine.environment.MINE=1", "ray_kwargs.ray_init.log_to_driver=false"]
    config = compose_run("luffy", "cpu", [*given, "data.chat_template_kwargs={enable_thinking: false}"], run=RUN)
    assert (config.environment.MINE, config.ray_kwargs.ray_init.log_to_driver) == (1, False)
    assert config.chat_template_kwargs == {"strftime_now": "2024-07-26", "enable_thinking": False}


def test_supervised_training_refuses_what_rollouts_read() -> None:
    with pytest.raises(InputError, match=r"^method.advantage.use_std has no effect with method.type=sft"):
        compose("sft", "cpu", ["method.advantage.use_std=true"])
    shared = ["method.advantage.use_std=true"]
    assert read_by("sft", [*shared, "seed=3"]) == (["seed=3"], shared)


def test_the_command_prints_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compose", "--shared", "--recipe", "sft", "--set", "method.advantage.use_std=true", "--set", "seed=3"])
        == 0
    )
    run = yaml.safe_load(capsys.readouterr().out)
    assert (run["method"]["type"], run["seed"], run["machine"]["threads"]) == ("sft", 3, "auto")
    assert run["verl"]["actor_rollout_ref.actor.optim.lr"] == 5e-5


def test_groups_with_something_else_to_learn_from_are_trained_on() -> None:
    whole = ["actor_rollout_ref.rollout.n=2", "method.prefix.n=2"]
    compose_run("luffy", "cpu", [*whole, "data.sample_target_ratio=0.5"], run=RUN)
    compose_run("luffy", "cpu", [*whole, "method.imitation={}"], run=RUN)
    compose_run("luffy", "cpu", [*whole, "method.prefix={type: random, n: 2, min: 0.5}"], run=RUN)


def test_the_words_for_truncated_are_those_of_the_grader() -> None:
    assert text_of(Reward.model_fields["truncated"]) == f"one of {', '.join(TRUNCATED)}"


def test_composing_imports_neither_torch_nor_omegaconf() -> None:
    code = "import sys, training.config.compose as c; c.compose('luffy', 'cpu', []); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"'torch'", "'omegaconf'", "'verl'"} & set(done.stdout.strip("[]\n").split(", "))


def test_every_key_of_before_has_its_place_or_a_reason() -> None:
    lines = (ROOT / "tests/golden/keys.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    assert lines[0] == "old\tnew" and rows == sorted(rows) and len(rows) > 80
    missing = [row for row in rows if not (within(row[1], settable()) or row[1].startswith(("goes: ", "method.")))]
    assert missing == []
