"""Configuration of a run: what composes, and what a mistake is told."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import DictConfig

from core.errors import InputError
from core.plugins.config_files import RECIPES, config_names
from training.config.to_verl import compose_run
from training.run import _fill_in

RUN = Path("run")
WITH_A_FILTER = ("dapo", "luffy_rejection", "luffy_seed", "questa", "questa_50")


def test_luffy_is_the_published_algorithm() -> None:
    config = compose_run("luffy", "gpu", [], run=RUN)
    options = config.method
    assert (options.advantage.baseline, options.advantage.use_std) == ("all_samples", False)
    assert options.off_policy.reshape == {"type": "p_div_p", "gamma": 0.1}
    assert options.on_policy.clip is None
    assert (options.prefix.n, options.prefix.min, options.prefix.max) == (1, 1.0, 1.0)
    assert options.reduce.type == "seq64-mean-token-sum-norm"
    assert (config.data.train_batch_size, config.actor_rollout_ref.rollout.n) == (128, 8)
    actor = config.actor_rollout_ref.actor
    assert (actor.ppo_mini_batch_size, actor.entropy_coeff, actor.use_kl_loss) == (64, 0.001, False)
    assert (actor.optim.lr, actor.optim.lr_warmup_steps, actor.optim.clip_grad) == (1e-6, 0, 1.0)


@pytest.mark.parametrize("recipe", config_names(RECIPES))
def test_two_updates_follow_a_batch_and_groups_are_dropped_on_request_only(recipe: str) -> None:
    config = compose_run(recipe, "cpu", ["data.train_batch_size=6"], run=RUN)
    assert config.actor_rollout_ref.actor.ppo_mini_batch_size == 3
    assert config.algorithm.filter_groups.enable == (recipe in WITH_A_FILTER)


def test_the_baselines_are_as_published() -> None:
    both = compose_run("rl_sft_loss", "gpu", [], run=RUN)
    assert (both.method.imitation.coef, both.method.on_policy.clip) == (1.0, None)
    sft = compose_run("sft", "gpu", [], run=RUN)
    optim = sft.actor_rollout_ref.actor.optim
    assert (optim.lr, optim.lr_warmup_steps_ratio, optim.lr_warmup_steps) == (5e-5, 0.1, 0)
    assert (sft.trainer.total_epochs, sft.trainer.total_training_steps) == (3, None)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of targets, of which a configuration needs the sources."""
    file = tmp_path_factory.mktemp("targets") / "train.parquet"
    pq.write_table(pa.table({"data_source": ["sums"]}), file)
    return file


def test_the_passes_of_supervised_training_become_steps(rows: Path) -> None:
    for count, steps in ((46_000, 3 * 718), (64, 3), (127, 3)):
        config = compose_run("sft", "cpu", [], run=RUN)
        _fill_in(config, data=rows, problems=rows, rows=count, model=RUN)
        assert config.trainer.total_training_steps == steps


def test_a_variable_of_the_profile_that_is_set_to_null_is_no_variable_of_the_process(rows: Path) -> None:
    for overrides, count in ((["machine.environment.TRAINING_PRELOADS_WORKERS=null"], 0), ([], 1)):
        config = compose_run("luffy", "cpu", overrides, run=RUN)
        environment = _fill_in(config, data=rows, problems=rows, rows=64, model=RUN)
        assert list(environment).count("TRAINING_PRELOADS_WORKERS") == count


def test_on_policy_has_no_off_policy_samples_and_clips() -> None:
    method = compose_run("on_policy", "cpu", [], run=RUN).method
    assert "prefix" not in method
    assert method.on_policy.clip == {"low": 0.2, "high": 0.2}


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
        (["method.prefix.n=9"], "method.prefix.n=9 contradicts rollout.n=8"),
        (["method.off_policy.reshape.type=p_div_p_1"], "reshape.type: got 'p_div_p_1', expected one of no_reshape"),
        (["method.off_policy.reshape.gamma=0"], "method.off_policy.reshape.gamma: Input should be greater than 0"),
        (["method.correction.low=6"], "method.correction.low is not a setting; expected one of type"),
    ],
)
def test_a_mistake_is_one_error_that_names_the_key(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose_run("luffy", "cpu", overrides, run=RUN)


def test_another_type_replaces_a_part_and_the_other_keys_change_it() -> None:
    given = ["method.on_policy.type=sapo", "method.on_policy.tau_neg=2.0", "method.off_policy.reshape.gamma=0.3"]
    method = compose_run("luffy", "cpu", given, run=RUN).method
    assert method.on_policy == {"type": "sapo", "tau_pos": 1.0, "tau_neg": 2.0}
    assert method.off_policy.reshape == {"type": "p_div_p", "gamma": 0.3}
    config = compose_run(
        "luffy", "cpu", ["method.reference={}", "method.reward_kl.coef=0.1", "method.filter={}"], run=RUN
    )
    assert config.actor_rollout_ref.actor.kl_loss_coef == 0.001 and config.algorithm.kl_ctrl.kl_coef == 0.1
    assert config.algorithm.use_kl_in_reward and config.algorithm.filter_groups.enable


@pytest.mark.parametrize(("recipe", "hardware"), [("lufy", "cpu"), ("luffy", "tpu")])
def test_an_unknown_recipe_or_profile_lists_those_there_are(recipe: str, hardware: str) -> None:
    with pytest.raises(InputError, match="expected one of"):
        compose_run(recipe, hardware, [], run=RUN)


def test_configs_are_plain_data(tmp_path: Path) -> None:
    config = compose_run("luffy", "cpu", [], run=tmp_path)
    assert isinstance(config, DictConfig)
    assert config.paths.run == str(tmp_path)
    assert config.trainer.default_local_dir == f"{tmp_path}/checkpoints"


def test_the_recipes_reward_by_text_as_published_and_a_wrong_word_is_refused() -> None:
    for recipe in config_names(RECIPES):
        assert compose_run(recipe, "cpu", [], run=RUN).reward.truncated == "by_text", recipe
    with pytest.raises(InputError, match=r"reward\.truncated: got 'half', expected one of zero, by_text"):
        compose_run("luffy", "cpu", ["reward.truncated=half"], run=RUN)
