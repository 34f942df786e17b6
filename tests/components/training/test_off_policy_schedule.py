"""Which prompts get off-policy samples, in which order prompts come, and what each refuses."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import tensordict_utils as tu

from core.errors import InputError
from training.algorithms.derived_seeds import prompt_key
from training.algorithms.guide import applies
from training.algorithms.prompt_order import easy_first
from training.config.to_verl import compose_run
from training.job.input_checks import check_pass_rates, check_several_targets, run_files
from training.methods.given import Prompt
from training.methods.luffy import Luffy
from training.methods.multitask import Multitask, PolicyFilter
from training.verl_hooks import replay_buffer
from training.verl_hooks.trainer import MixedPolicyTrainer


@given(st.floats(0.01, 1.0), st.floats(0, 1), st.booleans())
def test_problems_below_the_bound_are_guided_whatever_was_solved(bound: float, rate: float, solved: bool) -> None:
    assert applies(f"pass_rate < {bound:.17f}", solved=solved, pass_rate=rate) == (rate < float(f"{bound:.17f}"))


def test_a_resumed_run_guides_what_an_unbroken_one_does(tmp_path: Path) -> None:
    unbroken, resumed = Luffy(guide="until_solved"), Luffy(guide="until_solved")
    unbroken.see([7, 7, 8, 8, 9], [True, False, True, False, False], [False, True, True, True, True])
    unbroken.save(tmp_path)
    resumed.load(tmp_path)
    for method in (unbroken, resumed):
        method.see([5], [True], [True])
        plans = [method.plan(Prompt(key, "p", 0, 0, has_target=True), 2)[0].ratio for key in (5, 7, 8, 9)]
        assert plans == [0.0, 1.0, 0.0, 1.0]  # 7 was solved by its target alone


def asks(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def trainer_of(rule: str, monkeypatch: pytest.MonkeyPatch, **columns: Any) -> Any:
    """A trainer whose next batch has these columns."""
    trainer = MixedPolicyTrainer.__new__(MixedPolicyTrainer)
    trainer.method, trainer.seed, trainer.n, trainer.global_steps = Luffy(guide=rule), 3, 2, 1
    trainer.config = OmegaConf.create({"data": {"sample_target_ratio": 1.0}})
    rows = len(columns["raw_prompt"])
    columns |= {"target": [[{"content": "t"}]] * rows, "extra_info": [{"id": f"p{row}"} for row in range(rows)]}
    batch = {name: np.fromiter(values, object, len(values)) for name, values in columns.items()}
    monkeypatch.setattr(PPOTrainer, "_next_train_batch", lambda *_: tu.get_tensordict(dict(batch)))
    return trainer


def starts(trainer: Any) -> list[list[float]]:
    """The shares of the target that the samples of each prompt of the next batch start with."""
    rows = [getattr(plan, "data", plan) for plan in trainer._next_train_batch()["plan"]]
    return [[start["ratio"] for start in plan["starts"]] for plan in rows]


def test_the_trainer_plans_the_samples_of_each_prompt_that_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"raw_prompt": [asks("1+1"), asks("2+2"), asks("1+1")], "pass_rate": [0.1, 0.75, 0.1]}
    with_target, without = [1.0, 0.0], [0.0, 0.0]
    assert starts(trainer_of("always", monkeypatch, **columns)) == [with_target] * 3
    assert starts(trainer_of("pass_rate<0.5", monkeypatch, **columns)) == [with_target, without, with_target]
    trainer = trainer_of("until_solved", monkeypatch, raw_prompt=columns["raw_prompt"])
    assert starts(trainer) == [with_target] * 3
    trainer.method.see([prompt_key(asks("1+1"))], [True], [True])
    assert starts(trainer) == [without, with_target, without]
    trainer.config.data.sample_target_ratio = 0.0
    assert starts(trainer) == [without] * 3


def test_a_filter_remembers_solved_groups_and_counts_all_samples_of_unguided_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups of three: a is guided and always solved, b guided and solved by its target alone, and e is half right and
    never solved; c and d are unguided."""
    rewards = {"a": (1, 1, 1), "b": (1, 0, 0), "c": (1, 0, 0), "d": (0, 0, 0), "e": (1, 0.5, 0.5)}
    unguided, keys = {"c", "d"}, [f"{prompt}_{n}_0" for prompt in rewards for n in range(3)]

    def fields(keys: list[str], partition_id: str, select_fields: list[str]) -> TensorDict:
        prompts, numbers = zip(*map(replay_buffer.sample_of, keys), strict=True)
        values = {
            "group_off_policy": [int(prompt not in unguided) for prompt in prompts],
            "prompt_key": [ord(prompt) for prompt in prompts],
            "prefix_length": [9 * (n == 0 and p not in unguided) for p, n in zip(prompts, numbers, strict=True)],
            "guided": [0] * len(keys),  # by a target in the prompt
            "rm_scores": [[0.0, rewards[p][n]] for p, n in zip(prompts, numbers, strict=True)],
        }
        tensors = {name: torch.tensor(values[name]) for name in select_fields if name in values}
        return tu.get_tensordict({**tensors, "extra_fields": [{}] * len(keys)}, {})

    monkeypatch.setattr(replay_buffer, "tq", SimpleNamespace(kv_batch_get=fields))
    method = Multitask(filter=PolicyFilter(), guide="until_solved")
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer).follow(method, 3)
    buffer.filter_groups_metric = "reward"
    buffer.partitions, buffer.finished_keys = {"train": {key: {} for key in keys}}, {"train": set(rewards)}
    buffer._dapo_classification_cache = {"train": {}}  # pyright: ignore[reportAttributeAccessIssue]
    prompts, _ = buffer._dapo_filtered_keys("train")
    assert prompts == {"a", "d"}  # the first sample of c counts, and d has nothing to imitate
    assert method._solved == {ord("a"), ord("c")}


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30), st.integers(1, 8), st.integers(0, 3))
def test_the_easiest_come_first_in_whole_batches(rates: list[float], batch: int, seed: int) -> None:
    order = easy_first(rates, batch, seed)
    assert len(order) == len(set(order)) == len(rates) // batch * batch
    assert [rates[row] for row in order] == sorted((rates[row] for row in order), reverse=True)
    assert order == easy_first(rates, batch, seed)


def test_equal_problems_lie_by_the_seed_and_none_is_always_left_out() -> None:
    rates = [0.5] * 9 + [0.0]
    orders = [easy_first(rates, 3, seed) for seed in range(40)]
    assert len({tuple(order) for order in orders}) == 40
    assert all(any(row in order for order in orders) for row in range(10))


def targets_file(path: Path, rates: list[float | None] | None) -> Path:
    table = pa.table({"prompt": [str(row) for row in range(4)]})
    pq.write_table(table if rates is None else table.append_column("pass_rate", pa.array(rates, pa.float64())), path)
    return path


def config_of(*overrides: str) -> Any:
    return compose_run("luffy", "cpu", ["data.train_batch_size=2", *overrides], run=Path("run"))


@pytest.mark.parametrize(
    "setting",
    ["method.guide=pass_rate<0.5", "method.guide='pass_rate < .5'", "data.order=easy_first"],
)
def test_what_is_not_measured_is_refused_before_anything_starts(setting: str, tmp_path: Path) -> None:
    config, name = config_of(setting), setting.partition("=")[0]
    with pytest.raises(InputError, match=f"no column pass_rate of numbers, which {name}="):
        check_pass_rates(targets_file(tmp_path / "a.parquet", None), config)
    with pytest.raises(InputError, match=r"3 of 4 rows have no pass_rate from 0 to 1.* row 1, 2, 3: "):
        check_pass_rates(targets_file(tmp_path / "b.parquet", [0.5, None, float("nan"), 1.5]), config)
    good = targets_file(tmp_path / "c.parquet", [0.5, 0.0, 1.0, 0.25])
    check_pass_rates(good, config)
    ordered, _ = run_files(good, config, tmp_path)
    if name == "data.order":
        assert pq.read_table(ordered)["prompt"].to_pylist() == ["2", "0", "3", "1"]
    else:
        assert ordered == good


def test_all_targets_of_problems_with_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for texts, refused in (("one two", True), ("one one", False)):
        prompts = [[{"role": "user", "content": text}] for text in texts.split()]
        pq.write_table(pa.table({"prompt": prompts}), path)
        check_several_targets(path, config_of())
        with pytest.raises(InputError, match="each of the 2 problems has one target") if refused else nullcontext():
            check_several_targets(path, config_of("method.targets=all"))
