"""report/scorecard and registry/champion on written scores: what they refuse, when the champion moves."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import ModelCard

from assets.shared.references import Reference, ScorecardReference
from assets.shared.storage import FILES
from core.files import write_json
from core.model.lineage_file import parse_manifest, write_manifest
from core.schemas import BENCHMARK, ENTRIES_KEY
from evaluation.benchmarks.suite import load_suite
from evaluation.promotion.champions import Registry
from pipelines.cli.ui import scorecard_page
from tests.defs.project import message
from tests.defs.written_scores import BENCHMARKS, GOOD, OUTPUTS, PROBLEM, Written, with_base


@pytest.fixture
def written(build) -> Written:
    return with_base(build())


def test_a_better_policy_is_reported_in_every_place_and_becomes_the_champion(written: Written):
    digest = written.policy("first", **GOOD)
    assert written.project.run(*OUTPUTS).success
    shown = written.project.metadata("report/scorecard")
    page = Path(shown["file"]).read_text(encoding="utf-8")
    assert written.project.page(shown["page"]) == Path(shown["file"])
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "better than the base" in shown["verdict"]
    assert shown["evals difference, points"] == pytest.approx(44, abs=10)
    assert (Path(shown["file"]).parent / "scorecard.txt").read_text().count("arithmetic") >= 4
    assert written.champion["checkpoint"] == digest

    card = ModelCard.load(written.project.storage / "training" / "policy" / "first" / "policy" / "README.md")
    scores = {row["base"]["benchmark"]: row["policy"] for row in numbers(written)}
    assert {result.dataset_type for result in card.data.eval_results} == set(BENCHMARKS)
    for result in card.data.eval_results:
        score = scores[result.dataset_type]
        assert result.metric_value == pytest.approx(score["mean"], abs=1e-4)
        assert result.metric_args["interval_95"] == pytest.approx([score["low"], score["high"]], abs=1e-4)

    (file,) = (written.project.storage / "registry" / "decisions").iterdir()
    record, shown = json.loads(file.read_text()), written.project.metadata("registry/champion")
    assert shown["promoted"] is True and shown["compared with"] == written.base[:16]
    decision = record["decision"]
    assert record["checkpoint"] == digest and record["limits"]["max_ood_drop"] == 0.1
    assert decision["outcome"] == "promoted"
    assert decision["log_evidence"] > -math.log(decision["level"])
    assert decision["left"] == 0.05 and shown["error rate left after it"] == "0.05"
    assert decision["above_base"] == decision["ood"]  # the base was the opponent
    for name, difference in decision["ood"].items():
        assert shown[f"difference {name}, points"] == pytest.approx(100 * difference, rel=1e-3)
    assert decision["contamination"] == dict.fromkeys(BENCHMARKS, 0)
    assert shown["decision"] == str(file) and shown["in-domain difference, points"] > 0


def test_the_samples_become_logs_of_inspect_if_asked_for(written: Written):
    problems = {name: [f"{number:04}" for number in range(200)] for name in BENCHMARKS}
    rows = [PROBLEM | {"benchmark": name, "id": id} for name, ids in problems.items() for id in ids]
    entries = json.dumps([benchmark.model_dump(mode="json") for benchmark in load_suite("embedded")])
    suite = pa.Table.from_pylist(rows, schema=BENCHMARK).replace_schema_metadata({ENTRIES_KEY: entries})
    pq.write_table(suite, written.project.storage / "problems.parquet")
    written.policy("first", **GOOD)
    assert written.project.run("report/scorecard").success
    assert "inspect logs" not in written.project.metadata("report/scorecard")
    assert written.project.run("report/scorecard", set=["report.inspect_logs=true"]).success
    folder = Path(written.project.metadata("report/scorecard")["inspect logs"])
    scores = {}
    for file in folder.glob("*.eval"):
        with ZipFile(file) as log:
            header = json.loads(log.read("header.json"))
        accuracy = header["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        scores[header["eval"]["task"], header["eval"]["tags"][0]] = accuracy
    assert scores == {
        (row["base"]["benchmark"], role): row[role]["mean"] for row in numbers(written) for role in ("base", "policy")
    }
    reference = written.storage.read_reference("report/scorecard", ScorecardReference)
    assert reference.inspect_logs == str(folder)  # so retention keeps them


def test_the_scorecard_reaches_the_run_of_the_tracker(written: Written, training_interpreter, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    digest = written.policy("first", **GOOD)
    run = written.project.storage / "training" / "policy" / "first"
    runs = {"wandb": {"run": "abcd1234", "project": "luffy"}}
    write_json({"config": "", "name": "luffy-seed0", "runs": runs}, run / "trackers.json")
    assert written.project.run("report/scorecard").success
    content = b"".join(file.read_bytes() for file in run.glob("wandb/offline-run-*/run-*.wandb"))
    assert f"scorecard-{digest[:16]}".encode() in content


def test_a_tracker_that_is_gone_costs_no_scorecard(written: Written, training_interpreter, monkeypatch):
    written.policy("first", **GOOD)
    runs = {"nothing": {}}
    write_json(
        {"config": "", "name": "x", "runs": runs}, written.project.storage / "training/policy/first/trackers.json"
    )
    assert scorecard_page(written.storage) is None
    assert written.project.run("report/scorecard").success
    assert written.project.metadata("report/scorecard")["verdict"]
    page = scorecard_page(written.storage)  # which luffy ui prints
    assert page and (written.storage.path / page.removeprefix(f"{FILES}/")).is_file()


def numbers(written: Written) -> list[dict]:
    file = Path(written.project.metadata("report/scorecard")["file"]).parent / "scorecard.json"
    return json.loads(file.read_text())["rows"]


def test_a_policy_that_is_not_better_beyond_chance_is_not_promoted(written: Written):
    written.policy("weak", **{**GOOD, "arithmetic": 0.07})
    assert written.project.run(*OUTPUTS).success
    decision = written.project.metadata("registry/champion")
    assert decision["promoted"] is False
    assert "a promotion needs 1,020" in decision["reasons"]
    assert decision["outcome"].endswith(" answers are too few to tell")
    assert "more answers of each model" in decision["would decide it"]
    assert written.champion is None
    assert len(list((written.project.storage / "registry" / "decisions").iterdir())) == 1


def forgets(written: Written) -> None:
    written.policy("forgets", **{**GOOD, "arithmetic_short": 0.4})


def does_not_end_its_answers(written: Written) -> None:
    written.scores("policy", written.policy("long", **GOOD), truncated=0.9, arithmetic=0.5)


def saw_benchmark_problems(written: Written) -> None:
    written.targets("what is  12 + 30 + 5?")
    written.policy("cheat", **GOOD)


def lost_its_targets(written: Written) -> None:
    written.policy("orphan", **GOOD)
    written.trained_on.unlink()


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (forgets, "arithmetic_short"),
        (does_not_end_its_answers, "cut at the token limit"),
        (saw_benchmark_problems, "arithmetic: 1 problems are among the training targets"),
        (lost_its_targets, "cannot be searched"),
    ],
)
def test_a_policy_is_not_promoted_that(written: Written, policy: Callable[[Written], None], reason: str):
    policy(written)
    assert written.project.run(*OUTPUTS).success
    assert reason in written.project.metadata("registry/champion")["reasons"] and written.champion is None


def evaluate(written: Written, *, passed: bool) -> None:
    """Record an evaluation of a check on the targets that policies were trained on."""
    evaluation = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(["targets", "train"]),
        check_name="enough_rows",
        passed=passed,
        description="There are at least min_rows targets. Observed: 7",
        metadata={"data version": "t" * 64},
    )
    written.project.instance.report_runless_asset_event(evaluation)


def test_a_policy_whose_targets_fail_a_check_afterwards_is_not_promoted(written: Written):
    written.upstream = {"targets": {"digest": "t" * 64}}
    written.policy("good", **GOOD)
    evaluate(written, passed=True)
    evaluate(written, passed=False)
    refusal = message(written.project.run(*OUTPUTS))
    assert refusal.startswith("registry/champion: the targets of this policy do not pass: enough_rows failed:")
    assert "Observed: 7" in refusal and "luffy champion promote" in refusal
    assert written.champion is None
    evaluate(written, passed=True)
    assert written.project.run(*OUTPUTS).success and written.champion


def test_a_policy_that_was_trained_in_spite_of_a_failed_check_can_be_promoted(written: Written):
    written.upstream = {"targets": {"digest": "t" * 64}, "failed_checks": ["enough_rows"]}
    written.policy("good", **GOOD)
    evaluate(written, passed=False)
    assert written.project.run(*OUTPUTS).success and written.champion


def test_the_next_policy_has_to_beat_the_champion_and_not_the_base(written: Written):
    first = written.policy("first", **GOOD)
    assert written.project.run(*OUTPUTS).success
    written.policy("worse", **{**GOOD, "arithmetic": 0.3})
    assert written.project.run(*OUTPUTS).success
    assert written.project.metadata("registry/champion")["compared with"] == first[:16]
    page = Path(written.project.metadata("report/scorecard")["file"]).read_text(encoding="utf-8")
    assert "policy − champion" in page
    assert written.champion["checkpoint"] == first
    third = written.policy("third", **{**GOOD, "arithmetic": 0.9})
    assert written.project.run(*OUTPUTS).success
    assert (written.champion["checkpoint"], written.champion["previous"]) == (third, first)
    assert written.project.run(*OUTPUTS).success
    assert "already the champion" in written.project.metadata("registry/champion")["reasons"]


def test_a_policy_that_was_scored_beside_another_champion_is_not_promoted(written: Written):
    first = written.policy("first", **GOOD)
    assert written.project.run(*OUTPUTS).success
    written.policy("second", **{**GOOD, "arithmetic": 0.9})  # with the answers of the first beside it
    other = written.project.storage / "training/policy/other"
    shutil.copytree(written.project.storage / "training/policy/first", other)
    (other / "policy" / "model.safetensors").write_text("other")
    write_manifest(other / "policy", parse_manifest(other / "policy"))
    moved = Registry(written.project.storage).promote(str(other), reason="meanwhile").checkpoint
    assert written.project.run(*OUTPUTS).success
    assert written.champion["checkpoint"] == moved != first
    assert "materialize evals/policy" in written.project.metadata("registry/champion")["reasons"]


def test_scores_of_another_checkpoint_are_refused_by_name(written: Written):
    written.policy("first", **GOOD)
    written.scores("policy", "f" * 64, arithmetic_mul=0.1)
    result = written.project.run("report/scorecard")
    assert "ood/policy/arithmetic_mul (ffffffffffffffff)" in message(result)
    assert "materialize them again" in message(result)


def test_a_policy_of_another_base_is_refused(written: Written):
    written.policy("first", **GOOD)
    other = "c" * 64
    written.model(other)
    written.scores("base", other, **GOOD)
    assert "trained from base bbbbbbbbbbbbbbbb" in message(written.project.run("report/scorecard"))


def test_a_checkpoint_whose_files_changed_is_not_evaluated(written: Written):
    written.policy("first", **GOOD)
    policy = Path(written.storage.read_reference("training/policy", Reference).path)
    (policy / "model.safetensors").write_text("other weights")
    assert "its files are not those" in message(written.project.run("evals/policy/arithmetic"))
