"""Why a run does not learn: each cause is seen where it is, not where it is not, and said with what to change."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.errors import InputError
from core.schemas import LEARNED
from training.diagnosis.explain import CAUSES, explain, lines, markdown, seen, summary
from training.diagnosis.live import Watch
from training.diagnosis.record import AFTER, BEFORE, FIRST, LIVE, RunRecord, read_record
from training.job.records.rollout_log import Rollout
from training.job.user_reward import SHIPPED

ROOT = Path(__file__).resolve().parents[3]
RECORDED = sorted((ROOT / "research" / "runs").glob("*/*.zip"))
PLANTED = sorted((Path(__file__).parent / "explain_runs").glob("*.zip"))
CAUSE_OF = {"alike_cold": "alike", "alike_hard": "alike"}  # of planted faults whose name is another
LIMIT = 100
EARLY = [cause.name for cause in seen(FIRST) if BEFORE in cause.when]
CONFIG: dict[str, Any] = {
    "data": {"max_response_length": LIMIT},
    "reward": {"custom_reward_function": {"path": SHIPPED, "name": "compute_score"}},
    "method": {"correction": {"type": "none"}},
    "actor_rollout_ref": {
        "actor": {"optim": {"lr": 1e-4}},
        "model": {"override_config": {"attn_implementation": "sdpa"}},
        "rollout": {"max_model_len": 200, "temperature": 1.0},
    },
}


def sample(number: int, **changes: Any) -> Rollout:
    """A sample of one of four problems: right in one case of two."""
    answer = number % 4 + 10 * (number % 2)
    figures = {"prompt": f"user\nproblem {'x' * (number % 4)}\nassistant\n", "gold": str(number % 4)}
    figures |= {"response": f"<think>\nhm {number}\n</think>\n\n\\boxed{{{answer}}}", "reward": float(number % 2 == 0)}
    return Rollout(**{**figures, "prefix_length": 0, "tokens": 40, **changes})


def target(number: int, **changes: Any) -> Rollout:
    return sample(number, **{"prefix_length": 40, "reward": 1.0, **changes})


def metrics(**curves: list[float]) -> list[dict[str, Any]]:
    """The records of six steps of a run in order, with other ``curves`` ("__" stands for "/")."""
    usual = {
        "reward/on_policy": [0.1, 0.1, 0.1, 0.12, 0.1, 0.12],
        "reward/off_policy": [1.0] * 6,
        "actor/off_policy_prob": [0.80, 0.81, 0.83, 0.84, 0.86, 0.87],
        "actor/entropy": [0.2] * 6,
        "actor/grad_norm": [0.1] * 6,
        "groups/solve_partial": [0.3] * 6,
        "groups/solve_none": [0.7] * 6,
        "groups/off_policy": [1.0] * 6,
        "rollout_correction/abs_log_ratio_mean": [0.01] * 6,
        "staleness/mean": [0.0] * 6,
    }
    usual |= {name.replace("__", "/"): values for name, values in curves.items()}
    return [{"step": k + 1, "data": {name: values[k] for name, values in usual.items()}} for k in range(6)]


def of_curve(name: str, values: list[float]) -> list[dict[str, Any]]:
    """The records of a run of which one curve is known."""
    return [{"step": step, "data": {name: value}} for step, value in enumerate(values, 1)]


def run(samples: Any = sample, targets: Any = target, config: dict[str, Any] | None = None, **more: Any) -> RunRecord:
    """A run in order, but for what is given: samples and targets of steps 1 to 6 by their number."""
    drawn = {step: [samples(n) for n in range(16)] + [targets(n) for n in range(4)] for step in range(1, 7)}
    return RunRecord(**{"config": config or CONFIG, "records": metrics(), "samples": drawn, **more})


def changed(key: str, value: Any) -> dict[str, Any]:
    """The configuration with another value of ``key``."""
    config = json.loads(json.dumps(CONFIG))
    section = config
    *parents, name = key.split(".")
    for parent in parents:
        section = section.setdefault(parent, {})
    section[name] = value
    return config


def rambling(number: int) -> Rollout:
    return sample(number, response=f"\\boxed{{{number}}} and so on and so on {number}", tokens=LIMIT)


def wrong(number: int) -> Rollout:
    return sample(number, reward=0.0, response=f"\\boxed{{{number % 4 + 70}}}")


def sorted_by_length() -> dict[int, list[Rollout]]:
    return {
        step: [sample(n, prompt="p" * (10 * step + n % 4)) for n in range(16)] for step in range(1, 7)
    }  # four prompts of a step are alike


OPENED = "user\nproblem\nassistant\n<think>\n"
MODEL = "actor_rollout_ref.model.override_config"
RATE = "actor_rollout_ref.actor.optim.lr"
FAULTY = {
    "first_stage": run(first_stage=run(rambling)),
    "context": run(config=changed(MODEL, {"max_position_embeddings": 4096})),
    "thoughts_twice": run(targets=lambda n: target(n, prompt=OPENED, response="\n<think>\n1\n</think>\\boxed{1}")),
    "end_token": run(rambling),
    "cut": run(lambda n: sample(n, response=f"hm {n}", tokens=LIMIT, reward=0.0)),
    "no_box": run(lambda n: sample(n, response=f"it is {n}", reward=0.0)),
    "verifier_errors": run(lambda n: sample(n, error="no sympy" if n == 3 else "")),
    "always_right": run(lambda n: sample(n, response=f"</think>\\boxed{{{n}}}", reward=1.0)),
    "always_wrong": run(lambda n: sample(n, reward=0.0), lambda n: target(n, reward=0.0)),
    "order": RunRecord(CONFIG, metrics(), sorted_by_length()),
    "no_calls": run(records=of_curve("episode/calls", [0.04] * 10)),
    "stopped_calling": run(records=of_curve("episode/calls", [1.9] * 10 + [0.8] * 10)),
    "alike": run(
        wrong,
        records=metrics(groups__solve_partial=[0.01] * 6, groups__off_policy=[0.0] * 6),
    ),
    "no_signal": run(wrong, records=metrics(reward__on_policy=[0.0] * 6, groups__solve_partial=[0.0] * 6)),
    "stale": run(records=metrics(staleness__mean=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
    "drift": run(records=metrics(rollout_correction__abs_log_ratio_mean=[0.4] * 6)),
    "learning_rate": run(records=metrics(actor__off_policy_prob=[0.8, 0.6, 0.3, 0.2, 0.1, 0.1])),
    "targets_not_learned": run(records=metrics(actor__off_policy_prob=[0.8] * 6)),
    "loss_stays": RunRecord({"objective": "sft"}, metrics(actor__sft_loss=[2.0] * 6)),
    "barely_moved": run(config=changed(RATE, 1e-10)),
    "collapse": run(records=of_curve("reward/on_policy", [0.5] * 12 + [0.1] * 12)),
    "too_few_steps": run(records=metrics(reward__on_policy=[0.1] * 6)),
}


def test_a_run_in_order_has_no_cause():
    assert explain(run()) == []


def test_every_cause_has_a_case_here_and_a_section_in_the_documentation():
    assert [cause.name for cause in seen(AFTER)] == list(FAULTY)
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    for cause in CAUSES:
        assert f'<a id="{cause.name}"></a>' in page, cause.name
        assert cause.title in page, cause.name


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_named_first_with_its_evidence(name: str):
    first, *_ = explain(FAULTY[name])
    assert first.cause.name == name
    assert len(first.evidence.samples) <= 3
    assert any(character.isdigit() for character in first.evidence.text)


@pytest.mark.parametrize("name", EARLY)
def test_what_needs_no_training_is_seen_in_the_samples_alone(name: str):
    record = FAULTY[name]
    boxed = [one for one in record.samples[1] if name == "no_box" and one.prefix_length]
    before = RunRecord(record.config, samples={1: [one for one in record.samples[1] if one not in boxed]})
    assert next(finding.cause.name for finding in explain(before, BEFORE)) == name


def test_after_the_first_step_a_format_that_all_targets_have_is_no_fault():
    """The policy learns it from them; a target without a box does not teach it."""
    record = FAULTY["no_box"]
    first = list(record.samples[1])
    assert explain(RunRecord(CONFIG, samples={1: first})) == []
    unboxed = RunRecord(CONFIG, samples={1: [*first, target(0, response="it is 1")]})
    assert [finding.cause.name for finding in explain(unboxed)] == ["no_box"]


@pytest.mark.parametrize(("wrong", "right"), [(-1.0, 1.0), (0.0, 2.0), (0.1, 1.0)])
def test_rewards_of_other_scales_are_neither_always_right_nor_always_wrong(wrong: float, right: float):
    def drawn(number: int) -> Rollout:
        return sample(number, reward=right if number % 2 else wrong)

    assert explain(run(drawn, lambda n: target(n, reward=right))) == []
    refused = run(lambda n: sample(n, reward=-1.0), lambda n: target(n, reward=-1.0))
    assert [finding.cause.name for finding in explain(refused)] == ["always_wrong"]


STRETCHED = {"max_position_embeddings": 4096, "rope_parameters": {"rope_theta": 40000.0}}


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("alike", "method.teacher", {"coef": 1.0}),  # a teacher teaches where rewards do not
        ("stale", "method.correction.type", "tis"),
        ("context", MODEL, STRETCHED),
    ],
)
def test_a_key_that_answers_a_fault_ends_it(name: str, key: str, value: Any):
    record = FAULTY[name]
    assert explain(RunRecord(changed(key, value), record.records, record.samples)) == []


def test_a_format_that_the_run_learns_or_loses_is_no_fault_of_the_format():
    faulty, healthy = FAULTY["no_box"].samples[1], run().samples[1]
    for first, last in ((faulty, healthy), (healthy, faulty)):
        assert explain(RunRecord(CONFIG, metrics(), {1: first, 6: last})) == []


def test_a_run_that_learns_is_not_blamed_for_its_updates():
    rising = [0.0, 0.1, 0.2, 0.3, 0.5, 0.6]
    for name in ("order", "alike", "stale", "drift", "learning_rate", "targets_not_learned"):
        record = FAULTY[name]
        data = [{**one, "data": {**one["data"], "reward/on_policy": rising[k]}} for k, one in enumerate(record.records)]
        assert explain(RunRecord(record.config, data, record.samples)) == [], name


def test_groups_of_one_text_name_the_temperature():
    records = metrics(groups__solve_partial=[0.0] * 6, groups__off_policy=[0.0] * 6)
    cold = run(lambda n: sample(n % 4, reward=0.0), config=changed("actor_rollout_ref.rollout.temperature", 0.01))
    (finding,) = explain(RunRecord(cold.config, records, cold.samples))
    assert "rollout.temperature is 0.01" in finding.evidence.text


def test_the_ledger_says_more_of_targets_than_their_mean():
    record = FAULTY["targets_not_learned"]
    rows = [{"target": str(k), "uses": 3, "first_prob": 0.5, "last_prob": 0.6} for k in range(4)]
    learned = pa.Table.from_pylist(rows, schema=LEARNED)
    assert explain(RunRecord(record.config, record.records, record.samples, learned)) == []
    unknown = [{"target": "u", "uses": 2, "first_prob": None, "last_prob": None}]
    for more in (rows + unknown, unknown):
        learned = pa.Table.from_pylist(more, schema=LEARNED)
        found = explain(RunRecord(record.config, record.records, record.samples, learned))
        assert [finding.cause.name for finding in found] == ["targets_not_learned"] * (more == unknown)
        assert not any("nan" in finding.evidence.text for finding in found)


def test_the_error_that_ended_a_run_is_evidence():
    stopped = "RuntimeError: step 1: the verifier of x failed on 12 of 64 samples, more than 5%; the first: no sympy"
    (first, *_) = explain(RunRecord(CONFIG, error=stopped))
    assert first.cause.name == "verifier_errors" and "12 of 64" in first.evidence.text
    stopped = "ValueError: User-specified max_model_len (208) is greater than the derived max_model_len (96)"
    (first, *_) = explain(RunRecord(CONFIG, error=stopped))
    assert first.cause.name == "context"
    (first, *_) = explain(RunRecord(CONFIG, error="FloatingPointError: step 3: actor/grad_norm is inf"))
    assert first.cause.name == "learning_rate" and "lr=0.0001" in first.evidence.text


def test_the_report_has_cause_evidence_key_and_link():
    record = FAULTY["drift"]
    text = "\n".join(lines(record, explain(record)))
    for part in ("first cause: vLLM samples", "evidence: the mean |log-ratio|", "change: rollout.precision"):
        assert part in text
    assert "read: docs/explain.md#drift" in text and "sample 1, reward" in text and "0.4 to 0.4" in text
    assert "I found no known fault" in "\n".join(lines(run(), []))


def test_a_sample_is_only_text_in_markdown():
    hostile = run(lambda n: sample(n, response=f"<script>|`x` {n}", reward=0.0))
    text = markdown(hostile, explain(hostile))
    assert "<script>" not in text and "first cause: Answers have no box" in text


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("reward/on_policy", [0.1, *[0.9] * 12, *[0.1] * 9], [(19, "collapse")]),
        ("reward/on_policy", [*[0.9] * 12, 0.0, *[0.9] * 9], []),  # one bad step
        ("reward/on_policy", [*[0.09] * 12, *[0.001] * 9], []),  # it was never high
        ("reward/on_policy", [0.0] * 20, [(10, "no_signal")]),
        ("actor/entropy", [*[0.3] * 10, *[2.0] * 9], [(14, "entropy")]),
        ("actor/entropy", [0.3, *[3.0] * 12], [(10, "entropy")]),  # before there is a mean to compare
        ("actor/entropy", [2.0, *[0.2] * 12, *[0.8] * 9], []),
        (
            "response_length/clip_ratio",
            [*[0.9] * 11, *[0.0] * 10, *[0.9] * 9],
            [(10, "mostly_cut"), (27, "mostly_cut")],
        ),
        ("actor/off_policy_prob", [*[0.3] * 10, *[0.2] * 55], [(60, "stalled")]),
        ("actor/off_policy_prob", [0.95] * 70, []),  # nothing is left to learn
    ],
)
def test_a_curve_warns_once_and_only_where_it_goes_wrong(name: str, values: list[float], told: list[tuple[int, str]]):
    said: list[tuple[int, str]] = []
    links = {cause.link: cause.name for cause in seen(LIVE)}
    watch = Watch(CONFIG, lambda step, text: said.append((step, links[text.split("see ")[1]])), rollouts=None)
    for record in of_curve(name, values):
        watch.step(record)
    assert said == told


def test_a_resumed_run_is_warned_of_no_fault_that_it_had_before():
    records = of_curve("response_length/clip_ratio", [0.9] * 12)
    watch = Watch(CONFIG, lambda *_: pytest.fail("a warning"), earlier=records[:11], rollouts=None)
    watch.step(records[11])


@pytest.mark.parametrize(
    ("rollouts", "staleness", "correction", "names"),
    [
        ("separate_async", 4, "none", ["stale"]),
        ("separate_async", 1, "none", []),
        ("colocate_async", 8, "icepop", []),
        ("sync", None, "none", []),
    ],
)
def test_stale_samples_that_nothing_corrects_are_told_of_before_the_start(rollouts, staleness, correction, names):
    config = {"rollouts": rollouts, "max_staleness": staleness, "method": {"correction": {"type": correction}}}
    assert [finding.cause.name for finding in explain(RunRecord(config), BEFORE)] == names


def test_answers_of_a_base_model_without_a_right_one_say_that_it_must_imitate_first():
    drawn = [wrong(number) for number in range(40)]
    assert explain(RunRecord(CONFIG, samples={0: drawn[1:]}), FIRST) == []
    (finding,) = explain(RunRecord(CONFIG, samples={0: drawn}), FIRST)
    assert finding.cause.name == "no_signal" and "sft_rl" in finding.line() and "0 of 40" in finding.line()


def test_a_supervised_run_is_told_by_its_loss():
    learned = RunRecord({"objective": "sft"}, of_curve("actor/sft_loss", [6.8, 2.0, 0.5, 0.003]))
    assert explain(learned) == [] and "supervised loss 6.8 at first and 0.003 at last" in summary(learned)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_recorded_run_that_learns_raises_an_alarm(file: Path):
    record = read_record(file)
    findings = [finding.cause.name for finding in explain(record)]
    if record.learns:
        assert findings == []
    elif "stale" in file.stem and file.stem.split("-")[0].endswith("_none"):
        assert findings[:1] in ([], ["stale"])


@pytest.mark.parametrize("file", PLANTED, ids=lambda file: file.stem)
def test_a_planted_fault_is_named_first(file: Path):
    named = [finding.cause.name for finding in explain(read_record(file))]
    assert named[:1] == ([] if file.stem == "healthy" else [CAUSE_OF.get(file.stem, file.stem)])


def test_what_is_no_run_is_told(tmp_path: Path):
    with pytest.raises(InputError, match=r"no config\.yaml in it, so it is not a run"):
        read_record(tmp_path)
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(InputError, match=r"x\.zip: not a recorded run .*give the folder of a run, or its \.zip"):
        read_record(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("metrics.jsonl", "")
    with pytest.raises(InputError, match=r"y\.zip: no config\.yaml"):
        read_record(tmp_path / "y.zip")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("config.yaml", "{}")
        archive.writestr("metrics.jsonl", "[1]")
    with pytest.raises(InputError, match=r"z\.zip: metrics\.jsonl, line 1: expected "):
        read_record(tmp_path / "z.zip")
