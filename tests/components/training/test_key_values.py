"""Values that are not allowed, and values that contradict each other, are refused before anything starts."""

import re
from pathlib import Path

import pytest
import torch
from verl.trainer.ppo.core_algos import kl_penalty

from core.errors import InputError
from training.config.ranges import ranges
from training.job.configuration import compose_run

RUN = Path("run")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("actor_rollout_ref.rollout.temperature=0", "got 0, expected a number above 0"),
        ("actor_rollout_ref.rollout.top_p=0", "got 0, expected a number above 0 up to 1"),
        ("actor_rollout_ref.rollout.top_p=1.2", "got 1.2, expected a number above 0 up to 1"),
        ("actor_rollout_ref.actor.optim.lr=-1e-4", "got -0.0001, expected a number above 0"),
        ("actor_rollout_ref.actor.optim.lr=nan", "got 'nan', expected a number"),
        ("actor_rollout_ref.actor.optim.betas=[0.9,1.0]", "got 1.0, expected two numbers from 0 below 1"),
        ("actor_rollout_ref.actor.optim.betas=[0.9]", "got [0.9], expected two numbers from 0 below 1"),
        ("actor_rollout_ref.actor.optim.betas=[]", "got [], expected two numbers from 0 below 1"),
        ("actor_rollout_ref.actor.optim.lr_scheduler_type=linear", "got 'linear', expected one of constant, cosine"),
        ("actor_rollout_ref.actor.strategy=megatron", "got 'megatron', expected one of fsdp, fsdp2"),
        ("objective=dpo", "got 'dpo', expected one of rl, sft"),
        ("objective=null", "got None, expected one of rl, sft"),
        ("actor_rollout_ref.rollout.temperature=null", "got None, expected a number above 0 up to 2"),
        ("actor_rollout_ref.rollout.temperature=2.1", "got 2.1, expected a number above 0 up to 2"),
        ("actor_rollout_ref.rollout.val_kwargs.temperature=-0.1", "got -0.1, expected a number from 0 up to 2"),
        ("run.trackers=null", "got None, expected a list"),
        ("data.shuffle=null", "got None, expected true or false"),
        ("policy_dtype=null", "got None, expected a value, such as 'float32'"),
        ("compute=float16", "got 'float16', expected one of auto, float32, bfloat16"),
        ("threads=0", "got 0, expected a whole number from 1"),
        ("attention=sdpa_pack", "got 'sdpa_pack', expected one of auto, flash_attention_2, flash"),
        ("offload=sometimes", "got 'sometimes', expected one of auto, none, rollout, always"),
        ("seed=1.5", "got 1.5, expected a whole number from 0"),
        ("seed=-1", "got -1, expected a whole number from 0"),
        ("data.sample_target_ratio=1.5", "got 1.5, expected a number from 0 up to 1"),
        ("run.keep_checkpoints=0", "got 0, expected a whole number from 1"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=1.1", "got 1.1, expected a number above 0 up to 1"),
        ("actor_rollout_ref.rollout.n=2.0", "got 2.0, expected a whole number from 1"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(override: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(override.partition('=')[0])}: {re.escape(message)}"):
        compose_run("luffy", "cpu", [override], run=RUN)


@pytest.mark.parametrize(
    ("key", "switch"),
    [
        ("actor_rollout_ref.actor.kl_loss_type", "actor_rollout_ref.actor.use_kl_loss"),
        ("algorithm.kl_penalty", "algorithm.use_kl_in_reward"),
    ],
)
def test_the_estimates_of_the_divergence_are_verls(key: str, switch: str) -> None:
    allowed, one = ranges()[key].names, torch.zeros(1, 1)
    for name in allowed:
        kl_penalty(one, one, name)
        compose_run("luffy", "cpu", [f"{switch}=true", f"{key}={name}"], run=RUN)
    with pytest.raises(InputError, match=f"^{key}: got 'full', expected one of kl, "):
        compose_run("luffy", "cpu", [f"{switch}=true", f"{key}=full"], run=RUN)


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("on_policy", ["actor_rollout_ref.rollout.n=1"], "n=1: .* a group of one teaches nothing"),
        ("luffy", ["actor_rollout_ref.rollout.n=1"], "n=1: .* a group of one teaches nothing"),
        (
            "luffy",
            ["actor_rollout_ref.rollout.n=2", "mixed.prefix.n_prefix=2"],
            "n_prefix=2 and .*n=2: .* nothing",
        ),
        ("luffy", ["mixed.prefix.n_prefix=-1"], "n_prefix=-1 and .* teaches nothing"),
    ],
)
def test_groups_that_teach_nothing_are_refused(recipe: str, overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose_run(recipe, "cpu", overrides, run=RUN)


def test_groups_with_something_else_to_learn_from_are_trained_on() -> None:
    whole = ["actor_rollout_ref.rollout.n=2", "mixed.prefix.n_prefix=2"]
    compose_run("luffy", "cpu", [*whole, "data.sample_target_ratio=0.5"], run=RUN)
    compose_run("luffy", "cpu", [*whole, "mixed.sft_multitask.use=true"], run=RUN)
    compose_run("luffy", "cpu", [*whole, "mixed.prefix.strategy=random", "mixed.prefix.min=0.5"], run=RUN)
    compose_run("sft", "cpu", [], run=RUN)


@pytest.mark.parametrize(
    ("recipe", "overrides"),
    [
        ("pope", ["mixed.prefix.n_prefix=0", "mixed.off_policy_schedule=always"]),
        ("uft", ["mixed.prefix.strategy=fixed", "mixed.prefix.share=false"]),
        ("luffy_seed", ["mixed.off_policy_reshape=no_reshape", "mixed.off_policy_reshape_gamma=0.1"]),
    ],
)
def test_overrides_can_undo_what_contradicts_them(recipe: str, overrides: list[str]) -> None:
    compose_run(recipe, "cpu", overrides, run=RUN)
    with pytest.raises(InputError, match=r"contradicts .*Change one of them"):
        compose_run(recipe, "cpu", overrides[:1], run=RUN)


def test_an_override_adds_no_first_stage() -> None:
    with pytest.raises(InputError, match="the recipe luffy has one stage, and an override cannot add another"):
        compose_run("luffy", "cpu", ["first_stage={recipe: sft}"], run=RUN)
