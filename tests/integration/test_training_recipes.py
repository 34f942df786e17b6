"""Each recipe trains for real, two steps on the embedded model; so do two ranks with two rollout servers."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from loopback import OF_A_TRAINING, OF_RAY, check, watch
from training_inputs import write_targets
from training_runs import Training, check_ages
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.model.base_model import SHIPPED
from core.model.lineage_file import read_manifest
from core.plugins.config_files import RECIPES, config_names

# make test runs the published recipe and one without rollouts.
QUICK = ("luffy", "sft")
SUPERVISED = ("dft", "sft")
WITH_KL_LOSS = ("exopd", "gspo", "rl_sft_loss", "uft")
WITH_A_TEACHER = ("luffy_opd", "opd", "exopd", "rlsd", "sdpo")  # that scores the sampled token
PARTLY = ("prefix_rft", "trapo")  # what follows a part of the target is generated
WITH_SUPERVISED_LOSS = ("chord_mu", "chord_phi", "hpt", "rl_sft_loss", "srft", "uft")
TWO_STAGES = {"first_stage__set": '["data.train_batch_size=8","trainer.total_training_steps=3"]'}
# Four of eight samples are two of our four.
SETTINGS: dict[str, dict[str, str]] = {
    "luffy_seed": {
        "method__prefix__n": "2",
        "method__correction__type": "reinforce_pro",
        "method__filter": "null",
    },
    "mixed_policy": {"method__correction__type": "icepop"},
    "chord_mu": {"method__correction__type": "reinforce_pro"},
    "chord_phi": {"rollouts__type": "colocate_async"},
    "cispo": {"method__correction__type": "tis"},
    # The embedded model solves few groups sometimes: refilling a batch with them would take minutes.
    "dapo": {"method__filter": "null"},
    "dft": {"data__train_batch_size": "8"},
    "gspo": {"method__reference": "{}"},
    # Replay starts with what the first step solves by luck; the third step replays what the second one solves.
    "exgrpo": {"method__replay__start": "0.0", "trainer__total_training_steps": "3"},
    "relift": {"method__buffer": "3"},
    "luffy_failed": {"rollouts__type": "colocate_async"},
    "luffy_opd": {"method__teacher__model": "base"},
    "opd": {
        "method__teacher__model": "base",
        "method__teacher__task_rewards": "true",
        "rollouts__type": "colocate_async",
    },
    "exopd": {"method__teacher__model": "base"},
    "opsd": {"method__divergence": "{k: 16}"},
    "pope": {"method__prefix__n": "2", "method__guide": "until_solved"},
    "on_policy": {"method__correction__type": "tis", "method__reward_kl": "{}"},
    "rl_sft_loss": {"method__correction__type": "seq-mask-tis", "method__reference": "{}"},
    "sft": {"data__train_batch_size": "8"},
    "sft_rl": TWO_STAGES,
    "sft_then_rl": TWO_STAGES,
    "sft_then_rl_short": TWO_STAGES,
    "questa": {"method__filter": "null"},
    "questa_50": {"method__filter": "null"},
    "trapo": {"method__stages": "[1, 1, 1, 1]", "method__below": "[1, 2, 3]"},
}
# Samples with off-policy tokens in a group of four; the answers of the targets are too short for a hint of questa.
OFF_POLICY = {
    "chord_mu": 1,
    "chord_phi": 1,
    "luffy_failed": 1,
    "prefix_rft": 1,
    "trapo": 3,
    "hpt": 1,
    "luffy": 1,
    "luffy_reinforce_pro": 1,
    "luffy_opd": 1,
    "luffy_rejection": 1,
    "luffy_seed": 2,
    "mixed_policy": 1,
    "pope": 2,
    "rl_sft_loss": 1,
    "srft": 1,
    "uft": 4,
}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("targets")
    write_targets(folder / "heldout.parquet", 8, seed=1)
    return write_targets(folder / "train.parquet", 16)


def weights_moved(policy: Path, base: Path) -> float:
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in (policy, base)]
    pairs = zip(*(model.parameters() for model in models), strict=True)
    return max((one - other).abs().max().item() for one, other in pairs)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "recipe", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in config_names(RECIPES)]
)
def test_a_recipe_makes_a_policy(recipe: str, targets: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = Training(out, targets, recipe, **SETTINGS.get(recipe, {}))
    ports = watch(run.process)
    assert run.end() == 0, run.said + (out / "attempts" / "0001.log").read_text()[-3000:]
    records = [record["data"] for record in run.metrics()]
    steps = int(SETTINGS.get(recipe, {}).get("trainer__total_training_steps", 2))
    assert [record["step"] for record in run.metrics()] == list(range(1, steps + 1))
    for data in records:
        assert math.isfinite(data["actor/grad_norm"]) and data["actor/grad_norm"] > 0
        assert data["perf/throughput"] > 0 and data["run/device_hours"] > 0
    check(ports, *([*OF_RAY, "TrainingWorker"] if recipe in SUPERVISED else OF_A_TRAINING))
    if recipe in SUPERVISED:
        assert records[0]["actor/sft_loss"] > 0
        assert records[0]["perf/total_num_tokens"] > 8 * 40
    else:
        check_rollouts(run, recipe, records)

    policy = out / "policy"
    manifest = read_manifest(policy)
    assert (manifest.steps, manifest.attempts, manifest.request.recipe) == (steps, 1, recipe)
    assert manifest.device_hours > records[-1]["run/device_hours"]
    assert f"| Recipe | {recipe}, {steps} steps on cpu |" in (policy / "README.md").read_text()
    assert json.loads((policy / "generation_config.json").read_text())["eos_token_id"] is not None
    assert len(AutoTokenizer.from_pretrained(policy)) == len(AutoTokenizer.from_pretrained(SHIPPED))
    first_policy = out / "first_stage" / "policy"
    base = first_policy if first_policy.is_dir() else SHIPPED
    assert 0 < weights_moved(policy, base) < 0.1
    if recipe == "sft_rl":
        first = read_manifest(base)
        assert (first["request"]["recipe"], first["steps"]) == ("sft", 3)
        assert manifest.first_stage.checkpoint_digest == first.checkpoint_digest
        assert manifest.targets.digest != first.targets.digest

    if recipe == "luffy":
        again = Training(out, targets, recipe, run__keep_checkpoints="3")
        assert again.end(60) == 0, again.said
        assert f"reused {policy}" in again.said  # how a run is carried out is no part of the identity


def check_rollouts(run: Training, recipe: str, records: list[dict[str, Any]]) -> None:
    samples, waiting = run.rollouts(1), 0.0
    assert len(samples) == 16
    off_policy = [sample for sample in samples if sample["prefix_length"] > 0]
    if recipe == "pope":  # the policy wrote all of every response
        assert not off_policy
        seeing = [sample for sample in samples if "beginning of a correct solution" in sample["input"]]
        assert len(seeing) <= 4 * OFF_POLICY.get(recipe, 0) and len(seeing) % 2 == 0
    elif recipe == "luffy_failed":  # the group of a target has no other right sample
        assert len(off_policy) == 4 * records[0]["groups/solve_none"]
    elif recipe in ("luffy_seed", "trapo"):  # a random part of the target is sometimes nothing
        assert 4 <= len(off_policy) <= 4 * OFF_POLICY.get(recipe, 0)
    else:
        assert len(off_policy) == 4 * OFF_POLICY.get(recipe, 0)
    for data in records:
        # A whole target is not generated; what follows a part of one is.
        replayed = data["batch/off_policy_samples"] if recipe == "exgrpo" else 0
        if recipe not in PARTLY:
            whole = OFF_POLICY.get(recipe, 0) == 1 and recipe != "luffy_failed"
            assert data["batch/generation_requests"] == (12 if whole else 16 - replayed)
        assert ("distillation/kl" in data) == (recipe in WITH_A_TEACHER)
        assert ("actor/divergence" in data) == ("distillation/mass" in data) == (recipe == "opsd")
        if (
            recipe == "luffy_opd" and data["training/global_step"] == 1
        ):  # the teacher is the model that the run starts from
            assert abs(data["distillation/kl"]) < 1e-4
        assert ("reward/off_policy" in data) == bool(OFF_POLICY.get(recipe, 0) or replayed)
        assert ("replay/stored" in data) == (recipe == "exgrpo")
        if "rollouts__type" not in SETTINGS.get(recipe, {}):  # vLLM and the actor agree where samples are of their step
            assert data["rollout_correction/abs_log_ratio_max"] < 1e-2
        assert ("actor/sft_loss" in data) == (recipe in WITH_SUPERVISED_LOSS)
        assert ("groups/supervised" in data) == (recipe == "hpt")
        # The gate counts the same successes as the metric: what was never solved is imitated.
        assert data.get("groups/supervised") in (None, pytest.approx(data.get("groups/solve_none", 0)))
        assert ("reward/length_penalty" in data) == (recipe == "dapo")
        assert -0.5 <= data.get("reward/length_penalty", 0) <= 0
        assert 0 <= data.get("actor/sft_loss", 0) < 100  # a mean over tokens of a byte-level model times about 10
        assert data["groups/dropped"] == data["batch/missing_samples"] == 0
        if recipe == "chord_mu":
            step = data["training/global_step"]
            assert data["actor/sft_coef"] == pytest.approx(0.475 + 0.425 * math.cos(math.pi * step / 200))
        assert ("relift/waiting" in data) == (recipe == "relift")
        if recipe == "relift":
            waiting += 4 * data["groups/solve_none"]
            assert data.get("relift/targets", 0) == (3 if waiting >= 3 else 0)
            waiting -= data.get("relift/targets", 0)
            assert data["relift/waiting"] == waiting
            if "relift/targets" in data:
                assert 0 < data["relift/sft_loss"] < 10 and data["relift/grad_norm"] > 0
        if recipe == "srft":
            assert data["actor/sft_coef"] == 0.5
        assert ("actor/kl_loss" in data) == (recipe in WITH_KL_LOSS)
        if recipe == "uft":  # every sample continues a hint: none tells what the policy alone solves
            assert len({(sample["input"], sample["prefix_length"]) for sample in samples}) == 4
            continue
        shares = [data[f"groups/{kind}"] for kind in ("solve_all", "solve_none", "solve_partial")]
        assert sum(shares) == pytest.approx(1)


BRIEF = """
from training.methods.luffy import Luffy


class Brief(Luffy):
    lightest: float = 0.5  # the weight of a response that fills its limit

    def outcomes(self, samples, scores):
        share = samples.mask.sum(-1, keepdim=True) / samples.limit
        return super().outcomes(samples, scores) * (1 - (1 - self.lightest) * share)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_method_in_a_file_of_ones_own_trains_by_its_path(targets: Path, tmp_path: Path) -> None:
    file, losses = tmp_path / "brief.py", []
    file.write_text(BRIEF)
    for lightest in ("1.0", "0.25"):
        out = tmp_path / lightest
        chosen = "--set", f"method.type={file}:Brief", "--set", f"method.lightest={lightest}"
        run = Training(out, targets, "luffy", *chosen)
        assert run.end() == 0, run.said
        first, second = (record["data"] for record in run.metrics())
        assert first["actor/grad_norm"] > 0 and second["batch/off_policy_samples"] == 4
        losses.append(first["actor/off_pg_loss"])
        manifest = read_manifest(out / "policy")
        assert manifest.request.files.keys() == {"method.type"} and manifest.config["method"]["lightest"] == float(
            lightest
        )
    assert 0.25 < losses[1] / losses[0] < 1  # of the same targets, with the advantages of the first step


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rollouts", ["colocate_async", "separate_async"])
def test_asynchronous_rollouts_are_as_old_as_they_say(rollouts: str, targets: Path, tmp_path: Path) -> None:
    """A partial sample, too, drifts in its old tokens only."""
    # Of twelve samples, two at once: some are not finished when the weights change.
    few = {"actor_rollout_ref__rollout__max_num_seqs": "2"} if rollouts == "colocate_async" else {}
    run = Training(tmp_path / "run", targets, rollouts__type=rollouts, trainer__total_training_steps="3", **few)
    assert run.end() == 0, run.said + (tmp_path / "run" / "attempts" / "0001.log").read_text()[-3000:]
    records = [record["data"] for record in run.metrics()]
    assert len(records) == 3
    prompts = [sample["input"] for step in (1, 2, 3) for sample in run.rollouts(step)]
    assert len(prompts) == 3 * 16 and len(set(prompts)) == 3 * 4  # each prompt is trained on once
    check_ages(records)
    if rollouts == "separate_async":
        assert [data["staleness/mean"] for data in records] == [0, 1, 1]
        assert all(data["drift/age_1"] > 1e-4 for data in records[1:])
    else:  # the clock decides how many tokens are old: a few certain ones need not drift
        assert any(data["staleness/partial_share"] > 0 and "drift/age_0" in data for data in records)
        assert any("drift/age_1" in data for data in records)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("precision", "least", "most"), [("bfloat16", 1e-4, 3e-2), ("fp8", 3e-4, 3e-2), ("int4", 2e-3, 0.2)]
)
def test_rollouts_of_low_precision_drift_without_being_stale(
    precision: str, least: float, most: float, targets: Path, tmp_path: Path
) -> None:
    run = Training(tmp_path / "run", targets, rollout__precision=precision)
    assert run.end() == 0, run.said + (tmp_path / "run" / "attempts" / "0001.log").read_text()[-3000:]
    for record in run.metrics():
        assert record["data"]["staleness/max"] == 0
        assert least < record["data"]["drift/age_0"] < most


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_second_update_of_a_batch_is_clipped_and_the_teachers_probabilities_shape_it(tmp_path: Path) -> None:
    """In the first one the policy is the one that sampled: nothing to clip. The teacher gives each token a half."""
    targets = write_targets(tmp_path / "train.parquet", 16, log_prob=math.log(0.5))
    run = Training(
        tmp_path / "run",
        targets,
        method__on_policy__clip="{}",
        method__off_policy__phi="recorded",
        method__off_policy__max="0.8",
        actor_rollout_ref__actor__optim__lr="1e-3",
        trainer__total_training_steps="1",
    )
    assert run.end() == 0, run.said + (tmp_path / "run" / "attempts" / "0001.log").read_text()[-3000:]
    (record,) = run.metrics()
    data = record["data"]
    assert 0 < data["actor/on_pg_clipfrac"] < 1
    assert data["actor/ppo_kl"] != 0
    # The ratio is 2p, and its shaped value 2p / (2p + 0.1) is above 0.8 where p > 0.2.
    assert 0 < data["actor/off_ratio_max_clip_frac"] < 1
    assert 0 < data["actor/off_ratio_mean"] < 0.8
    assert 0 < data["actor/off_policy_prob"] < 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_ranks_with_two_rollout_servers_compute_what_one_does(targets: Path, tmp_path: Path) -> None:
    runs = {}
    for ranks in ("1", "2"):
        runs[ranks] = Training(
            tmp_path / ranks,
            targets,
            actor_rollout_ref__actor__ppo_mini_batch_size="4",  # ranks would cut two updates out of other rows
            trainer__n_gpus_per_node=ranks,
            ray_kwargs__ray_init__num_gpus=ranks,
            **{"actor_rollout_ref__rollout__agent__num_workers": ranks},
        )
        assert runs[ranks].end() == 0, runs[ranks].said
    (one, *_), (two, *_) = (run.metrics() for run in runs.values())
    assert len(list((tmp_path / "2" / "checkpoints" / "global_step_2" / "actor").glob("model_world_size_2_*.pt"))) == 2
    # The first step: same samples, so the same loss and gradient up to the order of sums.
    for name in ("reward/on_policy", "actor/pg_loss", "actor/grad_norm", "actor/entropy", "actor/off_ratio_mean"):
        assert two["data"][name] == pytest.approx(one["data"][name], rel=1e-4), name
