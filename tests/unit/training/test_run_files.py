"""What lies in a run's folder and what it says: metrics, samples, the model card, identity and claim of the folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from manifests import CONFIG, manifest, targets
from pages import page_data

from core.backends.attempts import Attempt, attempts, hold, next_attempt
from core.errors import InputError
from core.files import write_json
from core.ledger_verdicts import LEDGER
from core.model.base_model import SHIPPED
from core.model.lineage_file import CodeRecord, InputRecord, read_manifest, write_manifest
from training.diagnosis import browse as rollout_browser
from training.export.model_card import Score, model_card, write_scores
from training.job.lineage import earlier_code, portable
from training.job.records import rollout_log
from training.job.records.metrics_log import merge_attempts, require_finite
from training.job.request import TrainingRequest
from training.job.run_folder import RunFolder
from training.run import TRACKERS, run_job

ROOT = Path(__file__).resolve().parents[3]
TARGETS, MODEL = InputRecord(path=Path("t"), digest="a" * 64), InputRecord(path=Path("m"), digest="b" * 64)
REQUEST = TrainingRequest(overrides=("trainer.total_training_steps=4",), targets=TARGETS, model=MODEL, out=Path("run"))


def replace(request: TrainingRequest, **changes: Any) -> TrainingRequest:
    return request.model_copy(update=changes)


def write_steps(file: Path, steps: range, **data: float) -> Path:
    records = [{"step": step, "data": {"timing_s/step": 36.0, **data}} for step in steps]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def test_a_step_that_was_done_twice_counts_once_and_costs_twice(tmp_path: Path) -> None:
    files = [write_steps(tmp_path / "1", range(1, 6), a=1.0), write_steps(tmp_path / "2", range(3, 5), a=2.0)]
    records = merge_attempts(files, devices=8)
    assert [(record["step"], record["data"]["a"]) for record in records] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]
    assert records[-1]["data"]["run/device_hours"] == pytest.approx(7 * 36 * 8 / 3600)


def test_the_lineage_names_the_code_of_every_attempt_once(tmp_path: Path) -> None:
    old, new = ({"commit": "c", "dirty": True, "digest": digest, "number": 1} for digest in ("old", "new"))
    for number, code in enumerate((old, None, old, new), 1):
        write_json({"started": "2026-01-01T00:00:00+00:00", "code": code}, Attempt(tmp_path, number).record)
    (before,) = earlier_code(attempts(tmp_path), CodeRecord(**new))
    assert before.model_dump() == old
    assert "earlier_code" not in manifest().to_json()
    assert manifest(earlier_code=[before]).to_json()["earlier_code"] == [old]


def test_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    file = write_steps(tmp_path / "1", range(1, 3))
    with file.open("a") as more:
        more.write('{"step": 3, "da')
    assert len(merge_attempts([file])) == 2


@pytest.mark.parametrize("line", [b"[]", b"{", b'{"step": 1}', b'{"step": 1, "data": {"timing_s/step": "x"}}', b"\xff"])
def test_metrics_that_are_damaged_are_named_with_their_line(tmp_path: Path, line: bytes) -> None:
    file = write_steps(tmp_path / "1", range(1, 3))
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=r"/1, line 3: .*; remove the line$"):
        merge_attempts([file])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"started": 5}', '{"started": "yesterday"}'])
def test_a_damaged_record_of_an_attempt_is_named(tmp_path: Path, text: str) -> None:
    attempt = Attempt(tmp_path, 1)
    attempt.record.write_text(text)
    with pytest.raises(InputError, match=rf"^{attempt.record}: .*; remove the file, and the attempt does not count$"):
        attempt.seconds()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_is_named_with_its_step(value: float) -> None:
    with pytest.raises(FloatingPointError, match=rf"^step 7: actor/pg_loss is {value}$"):
        require_finite(7, {"actor/pg_loss": value, "actor/grad_norm": 1.0}, ("actor/pg_loss", "actor/grad_norm"))


def test_samples_are_read_by_step(tmp_path: Path) -> None:
    row = {"input": "1+1=?", "output": "<b>2", "gts": "2", "score": 1.0, "step": 3, "uid": "u_0_0", "prefix_length": 5}
    (tmp_path / "3.jsonl").write_text((json.dumps(row) + "\n") * 3)
    assert rollout_log.steps(tmp_path) == [3]
    assert rollout_log.read(tmp_path, 3, 2) == [rollout_log.Rollout("1+1=?", "<b>2", "2", 1.0, 5)] * 2
    with pytest.raises(InputError, match="no samples of step 4; it has steps 3 to 3"):
        rollout_log.read(tmp_path, 4)


def test_the_samples_of_a_killed_run_are_those_whose_lines_end(tmp_path: Path) -> None:
    row = json.dumps({"input": "1+1=?", "output": "2", "gts": "2", "score": 1.0, "prefix_length": 0})
    (tmp_path / "3.jsonl").write_text(f"{row}\n{row[:30]}")
    assert len(rollout_log.read(tmp_path, 3)) == 1
    (tmp_path / "3.jsonl").write_text(f"{row}\n{row[:30]}\n{row}\n")
    with pytest.raises(InputError, match=r"3\.jsonl: line 2: not a sample .*; remove the file of this step"):
        rollout_log.read(tmp_path, 3)


def test_the_samples_of_a_run_are_browsed_step_by_step(tmp_path: Path) -> None:
    row = {"input": "1+1=?", "output": "<think>\nhm\n</think>\n\n2", "gts": "2", "score": 1.0, "prefix_length": 0}
    (tmp_path / "rollouts").mkdir()
    for step in (9, 10):
        rows = [row, {**row, "score": 0.0, "prefix_length": 5, "step": step}]
        (tmp_path / "rollouts" / f"{step}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    rollout_browser.browse(tmp_path, tmp_path / "page.html")
    index, texts = page_data(tmp_path / "page.html")
    assert index["ids"] == ["9/0", "9/1", "10/0", "10/1"] and not index["review"]
    assert {facet["name"]: facet["values"] for facet in index["facets"]} == {
        "reward": ["1", "0"],
        "step": ["9", "10"],
        "head": ["on-policy", "off-policy"],
    }
    assert texts[3][:3] == ["1+1=?", "2", row["output"]] and texts[3][5] == {"off-policy tokens": "5"}


def test_the_card_says_data_recipe_and_lineage() -> None:
    card = model_card(manifest())
    assert card.startswith("---\nbase_model: some|base\nlibrary_name: transformers\n")
    for fact in (
        "1,234 rows",
        "luffy, 4 steps on cpu",
        "some\\|base",
        "c0ffee, changed",
        "Elliott/Openr1",
        "Gamma of the shaping p_div_p | 0.1 |",
    ):
        assert fact in card
    assert "Not evaluated yet." in card
    without = CONFIG["method"] | {"off_policy": {"reshape": {"type": "p_div_p"}}}
    card = model_card(manifest(config={**CONFIG, "method": without}))
    assert "Gamma" not in card and "Shaping of off-policy tokens | p_div_p |" in card
    supervised = manifest(last_step={}, config={**CONFIG, "objective": "sft"})
    assert "shaping" not in model_card(supervised).lower()


def test_scores_take_their_place_in_the_card_and_can_be_renewed(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(model_card(manifest()))
    write_scores(tmp_path, {"math500": Score("MATH-500", 0.1, 0.0, 0.2, 500, 1)})
    amc = Score("AMC", 0.5, 0.3, 0.7, 83, 32)
    write_scores(tmp_path, {"math500": Score("MATH-500", 0.825, 0.79, 0.86, 500, 1), "amc": amc})
    card = (tmp_path / "README.md").read_text()
    assert "| math500 | 82.5% | 79.0% to 86.0% |" in card and "10.0%" not in card and "Not evaluated" not in card
    assert card.index("| amc") < card.index("| math500") < card.index("lineage.json")
    data = ModelCard.load(tmp_path / "README.md").data
    result, _ = data.eval_results
    assert (result.dataset_type, result.dataset_name, result.metric_name) == ("amc", "AMC", "avg@32")
    assert (result.metric_value, result.metric_args) == (0.5, {"interval_95": [0.3, 0.7], "problems": 83})
    assert data.tags == ["luffy"] and data.base_model == "some|base"


def test_the_card_names_license_base_and_datasets(tmp_path: Path) -> None:
    base = tmp_path / "models--Qwen--Qwen2.5-Math-7B" / "snapshots" / ("a" * 40)
    base.mkdir(parents=True)
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Qwen\n")
    sources = {"open-r1/OpenR1-Math-220k": {}, "t.jsonl": {}, "one/t.jsonl": {}}
    prepared = {"source": json.dumps([*sources, "my/traces"]), "sources": json.dumps(sources)}
    data = ModelCard(model_card(manifest(targets=targets(metadata=prepared)), base)).data
    assert (data.license, data.base_model) == ("apache-2.0", "Qwen/Qwen2.5-Math-7B")
    assert data.datasets == ["open-r1/OpenR1-Math-220k"]
    pulled = targets(metadata={**prepared, "hub": "me/set@" + "c" * 40})
    changed = manifest(
        targets=pulled, config={**CONFIG, "run": {"license": "mit"}}, upstream={"base_model": {"source": "a/b@main"}}
    )
    data = ModelCard(model_card(changed, tmp_path)).data
    assert (data.license, data.base_model, data.datasets) == ("mit", "a/b", ["me/set"])
    (base / "README.md").write_text("---\nlicense: [\n---\n")
    assert ModelCard(model_card(manifest(), base)).data.license is None


def test_a_manifest_is_checked_against_the_files_beside_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no lineage.json in it, so its origin is unknown"):
        read_manifest(tmp_path)
    (tmp_path / "model.safetensors").write_text("weights")
    write_manifest(tmp_path, manifest())
    assert read_manifest(tmp_path).request == manifest().request
    (tmp_path / "model.safetensors").write_text("others")
    with pytest.raises(InputError, match=r"its files are not those that lineage.json describes"):
        read_manifest(tmp_path)
    (tmp_path / "lineage.json").write_text('{"identity": "i"}')
    with pytest.raises(InputError, match=r"lineage.json: request: Field required"):
        read_manifest(tmp_path)


def test_a_manifest_names_its_inputs_as_seen_from_the_checkpoint(tmp_path: Path) -> None:
    policy = tmp_path / "storage" / "training" / "policy" / "run" / "policy"
    file = tmp_path / "storage" / "targets" / "train.parquet"
    for folder in (policy, file.parent):
        folder.mkdir(parents=True)
    file.write_text("targets")
    seen = InputRecord(path=file, digest="t").seen_from(policy)
    assert seen.path == Path("../../../../targets/train.parquet") and seen.locate(policy) == file.resolve()
    moved = (tmp_path / "storage").rename(tmp_path / "elsewhere")
    assert seen.locate(moved / policy.relative_to(tmp_path / "storage")) == moved / "targets" / "train.parquet"
    assert InputRecord(path=Path("/data/x.parquet"), digest="t").seen_from(policy).path == Path("x.parquet")


def test_the_configuration_in_a_manifest_has_no_absolute_path(tmp_path: Path) -> None:
    config = {
        "a": [str(tmp_path / "checkpoints")],
        "b": {"c": str(ROOT / "training" / "verl_hooks"), "d": "/data/t.parquet"},
    }
    kept = {"e": "pkg://training.verl_hooks.reward", "f": 1, "g": None}
    assert portable({**config, **kept}, tmp_path) == {
        "a": ["checkpoints"],
        "b": {"c": "training/verl_hooks", "d": "t.parquet"},
        **kept,
    }


def test_how_a_run_is_carried_out_is_no_part_of_its_identity() -> None:
    same = replace(REQUEST, overrides=(*REQUEST.overrides, "run.stall_seconds=7"))
    assert same.identity() == REQUEST.identity()
    for other in (
        replace(REQUEST, overrides=("trainer.total_training_steps=5",)),
        replace(REQUEST, seed=1),
        replace(REQUEST, heldout=InputRecord(path=Path("h"), digest="d" * 64)),
        replace(REQUEST, model=InputRecord(path=Path("m"), digest="c" * 64)),
    ):
        assert other.identity() != REQUEST.identity()


def test_a_finished_policy_is_reused_only_as_it_was_written(tmp_path: Path) -> None:
    folder, said = RunFolder(tmp_path), []
    assert not folder.has_policy_of(REQUEST, said.append)
    folder.policy.mkdir()
    (folder.policy / "model.safetensors").write_bytes(b"weights")
    write_manifest(folder.policy, manifest(identity=REQUEST.identity()))
    assert folder.has_policy_of(REQUEST, said.append) and "other code made it" in said.pop()
    assert not folder.has_policy_of(replace(REQUEST, seed=1), said.append) and not said
    (folder.policy / "model.safetensors").write_bytes(b"weighty")
    assert not folder.has_policy_of(REQUEST, said.append)
    assert "files are not those that lineage.json describes" in said[0]
    assert said[0].endswith("set aside as policy.damaged") and not folder.policy.exists()


def test_without_the_interpreter_only_what_needs_no_more_than_the_policy_is_answered(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.policy.mkdir()
    weights = folder.policy / "model.safetensors"
    weights.write_bytes(b"weights")
    folder.config.write_text("run: {push_to_hub: null}\n")
    assert not folder.answers(REQUEST)
    write_manifest(folder.policy, manifest(identity=REQUEST.identity()))
    assert folder.answers(REQUEST)
    assert not folder.answers(replace(REQUEST, seed=1))
    assert not folder.answers(replace(REQUEST, overrides=(*REQUEST.overrides, "run.push_to_hub=me/policy")))
    folder.config.write_text("run: {push_to_hub: me/policy}\n")
    assert not folder.answers(REQUEST)
    folder.config.write_text("run: {push_to_hub: null}\n")
    weights.write_bytes(b"weighty")
    assert not folder.answers(REQUEST) and folder.policy.exists()


def test_a_folder_with_checkpoints_of_another_request_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.claim(REQUEST)
    state = tmp_path / "checkpoints" / "global_step_2" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    folder.claim(REQUEST)
    other = replace(REQUEST, seed=1)
    with pytest.raises(InputError, match="checkpoints of a training with other inputs"):
        folder.claim(other)
    for damage in (Path.touch, Path.unlink):
        folder.request.unlink()
        folder.request.touch()
        damage(folder.request)
        with pytest.raises(InputError, match=r"checkpoints of a training with a damaged or missing request\.json"):
            folder.claim(REQUEST)
    folder.claim(replace(other, force=True))
    folder.end(other)
    assert not state.exists()
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "lineage.json").write_text("{}")  # a finished one, of other code say
    with pytest.raises(InputError, match="has a policy of other inputs or settings"):
        folder.claim(other)


def test_a_forced_training_starts_anew_and_is_resumed_by_the_same_command(tmp_path: Path) -> None:
    folder, forced = RunFolder(tmp_path), replace(REQUEST, force=True)
    stage = folder.first_stage
    old = [folder.checkpoints, folder.rollouts, tmp_path / LEDGER, stage.checkpoints, stage.policy]
    for path in (*old, folder.policy, folder.attempts, stage.attempts):
        path.mkdir(parents=True)
    for attempts_folder in (folder.attempts, stage.attempts):
        write_json({"started": "2026-01-01T00:00:00+00:00"}, attempts_folder / "0002.json")
        (attempts_folder / "0002.log").write_text("")
    for last in (False, True):
        folder.claim(forced)
        assert not any(path.exists() for path in old) and folder.policy.exists()
        assert attempts(folder.attempts) == attempts(stage.attempts) == []
        assert (folder.attempts / "earlier" / "0002.log").exists()
        assert next_attempt(folder.attempts).number == next_attempt(stage.attempts).number == 3
        for again in (REQUEST, forced):
            folder.checkpoints.mkdir(exist_ok=True)
            assert folder.is_forced(again)
            folder.claim(again)
            assert folder.checkpoints.exists() and not folder.is_forced(replace(again, seed=1))
        if not last:
            folder.end(REQUEST)
            assert not folder.is_forced(forced)


def test_two_trainings_in_one_folder_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.backends.attempts.LOCK_SECONDS", 0.5)
    said: list[str] = []
    with (
        hold(tmp_path, "training", said.append),
        pytest.raises(InputError, match="another training runs in it"),
        hold(tmp_path, "training", lambda line: said.append(f"second: {line}")),
    ):
        pass
    with hold(tmp_path, "training", said.append):  # free again
        pass
    assert said == [f"second: waiting up to 0.5 s: another training in {tmp_path} runs or is ending"]


def test_a_recipe_with_two_stages_asks_for_held_out_targets(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "training", "--recipe", "sft_rl", "--targets", str(tmp_path / "train.parquet")]
    command += ["--model", str(SHIPPED), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"there is no {tmp_path / 'heldout.parquet'}: give --heldout" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, "mlflow", "a_module_that_is_not_installed")
    for tracker, message in (
        ("tensorbord", "expected one of tensorboard, mlflow, wandb"),
        ("mlflow", "mlflow is not"),
    ):
        request = replace(REQUEST, overrides=(f"run.trackers=[{tracker}]",), out=tmp_path / "run")
        with pytest.raises(InputError, match=message):
            run_job(request, lambda event: None)
    assert not (tmp_path / "run").exists()
