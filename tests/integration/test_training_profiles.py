"""Every recipe on every hardware profile, as verl's own validator and dataclasses take it."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from omegaconf import open_dict
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from core.model.base_model import SHIPPED
from core.plugins.config_files import HARDWARE, RECIPES, config_names
from training.config.teacher_settings import WORDING
from training.config.to_verl import compose_run
from training.resources.auto_values import resolve_auto
from training.resources.machine import Gpu, Machine
from training.resources.model_shape import ModelShape

RUN = Path("run")
EIGHT_GPUS = Machine(2, (Gpu("NVIDIA H100 80GB HBM3", 85.5e9, (9, 0)),) * 8, 128, 1e12, 64e9, 1e12)


def pairs() -> Iterator[object]:
    """Every recipe with every profile; the quick ones are `luffy` with each profile and each recipe on a CPU."""
    for recipe, hardware in product(config_names(RECIPES), config_names(HARDWARE)):
        quick = recipe == "luffy" or hardware == "cpu"
        yield pytest.param(recipe, hardware, marks=[] if quick else pytest.mark.slow)


# Tokens of the target that a prompt of the policy, or of the teacher that it is itself, has besides the problem.
SHOWN = {"pope": 4096, "questa": 2048, "questa_50": 4096, "rlsd": 0, "sdpo": 8192}


@pytest.mark.parametrize(("recipe", "hardware"), pairs())
def test_every_recipe_composes_on_every_hardware_profile_and_verl_accepts_it(recipe: str, hardware: str) -> None:
    config = compose_run(recipe, hardware, [], run=RUN)
    resolve_auto(config, EIGHT_GPUS, ModelShape.of_folder(SHIPPED))
    assert config.trainer.v1.trainer_mode == "mixed_sync"
    assert config.trainer.device == ("cpu" if hardware == "cpu" else "cuda")
    limits = config.data.max_prompt_length + config.data.max_response_length
    shown = SHOWN[recipe] + WORDING + 1 if recipe in SHOWN else 0
    assert config.actor_rollout_ref.rollout.max_model_len == limits + shown

    with open_dict(config):
        config.actor_rollout_ref.model.path = str(SHIPPED)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.engine.strategy, actor.use_dynamic_bsz) == ("fsdp2", True)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert rollout.free_cache_engine is (hardware != "cpu")
    assert omega_conf_to_dataclass(config.actor_rollout_ref.model).use_remove_padding is (hardware != "cpu")
