"""Validation in a run: which problems it has, which checkpoint is the best, and what its time counts for."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from core.errors import InputError
from core.model.base_model import SHIPPED
from core.model.lineage_file import InputRecord
from core.parquet import count_rows, shard_path
from core.schemas import TARGET
from training.config.to_verl import compose_run
from training.job.checkpoints import (
    best_step,
    complete_steps,
    exported_step,
    folder_of,
    mark_complete,
    record_score,
    scores,
)
from training.job.input_checks import check_targets, run_files, verl_files
from training.job.records.metrics_log import seconds_of, time_by_phase
from training.verl_hooks.metrics import validation_metrics
from training.verl_hooks.supervised import TargetDataset


def write(file: Path, problems: list[str]) -> Path:
    rows = [
        {
            "data_source": "test",
            "prompt": [{"role": "system", "content": f"way {number}"}, {"role": "user", "content": problem}],
            "target": [{"role": "assistant", "content": "<think>\n1\n</think>\n\n\\boxed{1}"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "1"},
            "extra_info": {"split": "train", "index": number, "id": str(number), "source": "test"},
        }
        for number, problem in enumerate(problems)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=TARGET), file)
    return file


def users(file: Path) -> list[str]:
    return [row[-1]["content"] for row in pq.read_table(file)["prompt"].to_pylist()]


def config(run: Path, *overrides: str) -> Any:
    settings = ["data.train_batch_size=4", "trainer.test_freq=2", "data.val_max_samples=5", *overrides]
    return compose_run("luffy", "cpu", [*settings, "actor_rollout_ref.actor.ppo_mini_batch_size=4"], run=run)


def test_problems_are_set_aside_whole_and_the_same_in_every_run(tmp_path: Path) -> None:
    problems = [f"{number % 20}+1=?" for number in range(40)]  # two targets of each
    targets = write(tmp_path / "targets.parquet", problems)
    training, validation = run_files(targets, config(tmp_path), tmp_path)
    aside, left = users(validation), users(training)
    assert len(aside) == len(set(aside)) == 5 and len(left) == 30
    assert not set(aside) & set(left) and set(aside) | set(left) == set(problems)
    assert pq.read_table(validation)["target"].to_pylist() == [[]] * 5
    # The order of the rows, the seed and blanks decide nothing.
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other.parquet", [f" {problem}" for problem in reversed(problems)])
    _, again = run_files(other, config(tmp_path, "seed=3"), tmp_path / "other")
    assert [text.strip() for text in users(again)] == aside


def test_given_problems_must_not_be_trained_on(tmp_path: Path) -> None:
    targets = write(tmp_path / "targets.parquet", ["a", "b", "c", "d"])
    write(tmp_path / "given.parquet", ["e", "f"])
    given = config(tmp_path, f"data.val_files={tmp_path / 'given.parquet'}")
    training, validation = run_files(targets, given, tmp_path)
    assert training == targets and sorted(users(validation)) == ["e", "f"]
    write(tmp_path / "given.parquet", ["e", " b "])
    with pytest.raises(InputError, match=r"given\.parquet: 1 of its problems are in .*targets\.parquet, too"):
        run_files(targets, given, tmp_path)


def test_too_few_rows_are_an_error_that_names_both_keys(tmp_path: Path) -> None:
    targets = write(tmp_path / "targets.parquet", [str(number) for number in range(8)])
    with pytest.raises(InputError, match=r"3 rows are left .*data\.val_max_samples=5.*data\.train_batch_size=4"):
        run_files(targets, config(tmp_path), tmp_path)


def save(checkpoints: Path, step: int, keep: int = 1) -> None:
    folder_of(checkpoints, step).mkdir(parents=True)
    mark_complete(checkpoints, step, keep)


def test_the_best_checkpoint_is_kept_beside_the_newest(tmp_path: Path) -> None:
    for step, score in ((1, 0.2), (2, 0.6), (3, 0.6), (4, 0.1), (5, None), (6, 0.3)):
        save(tmp_path, step)
        if score is not None:
            record_score(tmp_path, step, score)
    assert complete_steps(tmp_path) == [3, 6]
    assert (best_step(tmp_path), exported_step(tmp_path, "best"), exported_step(tmp_path, "last")) == (3, 3, 6)


def test_without_a_score_the_last_checkpoint_is_the_policy(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert (best_step(tmp_path), exported_step(tmp_path, "best")) == (None, 1)


def test_a_resumed_run_drops_the_scores_that_it_repeats(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        record_score(tmp_path, step, step / 10)
    record_score(tmp_path, 4, 0.9)
    assert scores(tmp_path) == {2: 0.2, 4: 0.9}


def test_a_sample_that_failed_scores_nothing() -> None:
    assert validation_metrics(["a"], [1.0], {("a", "p"): 1, ("a", "q"): 1}) == {"validation/score": 0.5}


def test_a_validation_is_time_of_the_run() -> None:
    record = {"data": {"timing_s/step": 4.0, "timing_s/gen": 3.0, "timing_s/testing": 2.0}}
    assert seconds_of(record) == 6.0
    assert time_by_phase([record]) == {"generation": 3.0, "validation": 2.0, "other": 1.0}


def test_targets_in_several_files_are_read_like_one(tmp_path: Path) -> None:
    problems = [f"{number}+1=?" for number in range(40)]
    whole = write(tmp_path / "whole.parquet", problems)
    table = pq.read_table(whole)
    (tmp_path / "seed=3").mkdir()
    targets = tmp_path / "seed=3" / "train.parquet"
    for number in range(5):  # the last one has no row, which verl cannot read
        pq.write_table(table.slice(10 * number, 10), shard_path(targets, number, 5))
    settings = config(tmp_path, "data.train_batch_size=4")
    record = check_targets(InputRecord(path=targets, digest="d"), SHIPPED, settings)
    assert record.rows == 40 and count_rows(targets) == 40
    assert [Path(file).name for file in verl_files(targets)] == [f"train-{n:05d}-of-00005.parquet" for n in range(4)]
    assert verl_files(whole) == str(whole)
    first, second = (run_files(file, settings, tmp_path / file.stem) for file in (whole, targets))
    assert [users(file) for file in first] == [users(file) for file in second]
    dataset = TargetDataset(verl_files(targets), AutoTokenizer.from_pretrained(SHIPPED))
    assert len(dataset) == 40
    others = write(tmp_path / "others.parquet", [f"{number}+2=?" for number in range(8)])
    given = config(tmp_path, f"data.val_files='{targets}'")
    assert users(run_files(others, given, tmp_path)[1]) == users(first[1])
    shard_path(targets, 2, 5).unlink()
    with pytest.raises(InputError, match=r"train\.parquet: expected train-00000-of-00005\.parquet to"):
        check_targets(InputRecord(path=targets, digest="d"), SHIPPED, settings)
