"""Configuration of a run: what composes, and what a mistake is told."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.plugins.config_files import RECIPES, config_names
from training.config.to_verl import compose_run
from training.run import _fill_in

RUN = Path("run")
WITH_A_FILTER = ("dapo", "luffy_rejection", "luffy_seed", "questa", "questa_50")


@pytest.mark.parametrize("recipe", config_names(RECIPES))
def test_two_updates_follow_a_batch_and_groups_are_dropped_on_request_only(recipe: str) -> None:
    config = compose_run(recipe, "cpu", ["data.train_batch_size=6"], run=RUN)
    assert config.actor_rollout_ref.actor.ppo_mini_batch_size == 3
    assert config.algorithm.filter_groups.enable == (recipe in WITH_A_FILTER)


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


def test_the_seed_reaches_data_actor_and_rollout() -> None:
    config = compose_run("luffy", "cpu", ["seed=7"], run=RUN)
    assert {
        config.data.seed,
        config.actor_rollout_ref.actor.data_loader_seed,
        config.actor_rollout_ref.rollout.seed,
    } == {7}


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
