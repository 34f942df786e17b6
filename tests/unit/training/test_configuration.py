"""Configuration of a run: what composes, and what a mistake is told."""

from pathlib import Path

import pytest
from omegaconf import DictConfig

from evaluation.errors import InputError
from training.configuration import compose_run, mixed_options, names

RUN = Path("run")


@pytest.mark.parametrize("hardware", names("hardware"))
@pytest.mark.parametrize("recipe", names("recipe"))
def test_every_recipe_composes_on_every_hardware_profile(recipe: str, hardware: str) -> None:
    config = compose_run(recipe, hardware, [], run=RUN)
    assert config.trainer.v1.trainer_mode == "mixed"
    assert config.trainer.device == ("cpu" if hardware == "cpu" else "cuda")
    limits = config.data.max_prompt_length + config.data.max_response_length
    assert config.actor_rollout_ref.rollout.max_model_len == limits


def test_luffy_is_the_published_algorithm() -> None:
    config = compose_run("luffy", "gpu", [], run=RUN)
    options = mixed_options(config)
    assert (options.baseline, options.use_std) == ("union", False)
    assert (options.off_policy_reshape, options.loss_remove_clip) == ("p_div_p_0.1", True)
    assert (options.prefix.n_prefix, options.prefix.min, options.prefix.max) == (1, 1.0, 1.0)
    assert (config.data.train_batch_size, config.actor_rollout_ref.rollout.n) == (128, 8)
    assert config.actor_rollout_ref.actor.optim.lr == 1e-6


def test_on_policy_has_no_guidance_and_clips() -> None:
    options = mixed_options(compose_run("on_policy", "cpu", [], run=RUN))
    assert options.prefix.n_prefix == 0
    assert not options.loss_remove_clip


def test_the_seed_reaches_data_actor_and_rollout() -> None:
    config = compose_run("luffy", "cpu", ["seed=7"], run=RUN)
    assert {
        config.data.seed,
        config.actor_rollout_ref.actor.data_loader_seed,
        config.actor_rollout_ref.rollout.seed,
    } == {7}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.train_batchsize=3"], "did you mean 'data.train_batch_size'"),
        (["n_prefix=2"], "did you mean 'mixed.prefix.n_prefix'"),
        (["mixed.prefix.n_prefix=9"], "n_prefix"),
        (["mixed.off_policy_reshape=p_div_p_-1"], "off_policy_reshape"),
        (["mixed.rollout_correction.low=6"], "low"),
        (["mixed.baseline=median"], "baseline"),
    ],
)
def test_a_mistake_is_one_error_that_names_the_key(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose_run("luffy", "cpu", overrides, run=RUN)


@pytest.mark.parametrize(("recipe", "hardware"), [("lufy", "cpu"), ("luffy", "tpu")])
def test_an_unknown_recipe_or_profile_lists_those_there_are(recipe: str, hardware: str) -> None:
    with pytest.raises(InputError, match="expected one of"):
        compose_run(recipe, hardware, [], run=RUN)


def test_configs_are_plain_data(tmp_path: Path) -> None:
    config = compose_run("luffy", "cpu", [], run=tmp_path)
    assert isinstance(config, DictConfig)
    assert config.paths.run == str(tmp_path)
    assert config.trainer.default_local_dir == f"{tmp_path}/checkpoints"
