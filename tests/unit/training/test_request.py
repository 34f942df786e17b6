"""The request of a training as a file: what is written is what is read, and a digest travels with it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.files import digest_file
from core.model.base_model import SHIPPED
from core.model.lineage_file import InputRecord
from core.model.model_folder import model_digest
from training.job.request import TrainingRequest


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_a_written_request_is_read_as_it_was(tmp_path: Path, targets: Path) -> None:
    request = TrainingRequest(
        recipe="sft_rl",
        overrides=("data.train_batch_size=8", "run.trackers=[wandb]"),
        seed=3,
        targets=targets,
        model=SHIPPED,
        heldout=targets,
        backend="slurm",
        slurm={"time": 5},
        out=tmp_path / "run",
        upstream={"dagster_run": "r"},
    ).complete()
    assert TrainingRequest.read(request.write(tmp_path / "request.json")) == request
    assert request.heldout is not None and request.heldout.digest == digest_file(targets)


def test_digests_are_computed_where_they_are_missing_and_checked_where_they_are_given(targets: Path) -> None:
    reward = targets.with_name("r.py")
    reward.write_text("def compute_score(data_source, solution_str, ground_truth, extra_info=None): return 1.0")
    overrides = (f"reward.custom_reward_function.path={reward}",)
    request = TrainingRequest(
        recipe="sft_rl", targets=targets, heldout=targets, model=SHIPPED, out="run", overrides=overrides
    ).complete()
    assert (request.targets.digest, request.model.digest) == (digest_file(targets), model_digest(SHIPPED))
    assert request.complete() == request
    other = InputRecord(path=targets, digest="d" * 64)
    for changes, what in (
        ({"targets": other}, f"targets {targets}"),
        ({"heldout": other}, f"heldout {targets}"),
        ({"model": InputRecord(path=SHIPPED, digest="d" * 64)}, f"model {SHIPPED}"),
        ({"files": {"reward.custom_reward_function.path": "d" * 64}}, "reward.custom_reward_function.path"),
    ):
        with pytest.raises(InputError, match=rf"^{what}: has changed: .* and the request gives {'d' * 16}…"):
            request.model_copy(update=changes).complete()


def test_a_recipe_of_one_stage_does_not_depend_on_held_out_targets(targets: Path) -> None:
    request = TrainingRequest(targets=targets, model=SHIPPED, heldout="nowhere.parquet", out="run").complete()
    assert request.heldout is None


def test_where_a_training_runs_does_not_change_what_it_computes(targets: Path) -> None:
    here = TrainingRequest(targets=targets, model=SHIPPED, out="run").complete()
    slurm = {"partition": "gpu", "additional_parameters": {"begin": "now"}}
    away = here.model_copy(update={"backend": "slurm", "slurm": slurm, "out": Path("other")})
    assert away.identity() == here.identity()
    assert here.config_overrides() == away.config_overrides() == ["seed=0"]


def test_a_first_stage_runs_in_the_folder_of_its_run(targets: Path) -> None:
    request = TrainingRequest(recipe="sft_rl", targets=targets, model=SHIPPED, heldout=targets, out="run").complete()
    stage = request.first_stage("sft", ["data.train_batch_size=4"])
    assert (stage.recipe, stage.out, stage.heldout) == ("sft", Path("run/first_stage").absolute(), None)


def test_a_key_that_is_no_part_of_a_request_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"targetss": "t", "model": "m", "out": "o"}')
    with pytest.raises(InputError, match=r"r\.json: targetss is not a setting; did you mean targets\?"):
        TrainingRequest.read(tmp_path / "r.json")


def test_a_file_that_is_all_of_a_table_is_trained_on_and_one_of_several_is_refused(tmp_path: Path) -> None:
    def complete(file: str, *overrides: str) -> TrainingRequest:
        targets = {"path": tmp_path / file}
        return TrainingRequest(targets=targets, model=SHIPPED, out="run", overrides=overrides).complete()

    for name in ("only-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"):
        pq.write_table(pa.table({"a": [name]}), tmp_path / f"{name}.parquet")
    assert complete("only-00000-of-00001.parquet").targets.digest
    with pytest.raises(InputError, match=r"one of the files of .*train\.parquet: give --targets"):
        complete("train-00001-of-00002.parquet")
    whole = complete("only.parquet", f"data.val_files={tmp_path / 'train.parquet'}", "trainer.test_freq=5")
    assert whole.files["data.val_files"] == complete("train.parquet").targets.digest
    with pytest.raises(InputError, match=r"data\.val_files: .*none\.parquet: no such file"):
        complete("only.parquet", f"data.val_files={tmp_path / 'none.parquet'}", "trainer.test_freq=5")
