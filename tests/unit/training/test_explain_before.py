"""What is looked at before a training: some of its targets, and the samples of its first step."""

import asyncio
import json
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from training_inputs import write_targets

from core.files import read_json, write_json
from core.model.base_model import SHIPPED
from core.parquet import shard_path
from core.schemas import TARGET
from training.config.to_verl import compose_run
from training.diagnosis import before, updates
from training.diagnosis.before import examine, warn_before
from training.diagnosis.live import Watch
from training.diagnosis.record import PROMPTS, RunRecord, sample_rows

SIZES = ["data.train_batch_size=4", "data.max_prompt_length=64", "data.max_response_length=144"]
REWARD = "reward.custom_reward_function"


def config(tmp_path: Path, recipe: str = "luffy", **changes: str) -> Any:
    overrides = [*SIZES, "actor_rollout_ref.rollout.n=4"] if recipe == "luffy" else SIZES
    given = [f"{name.replace('__', '.')}={value}" for name, value in changes.items()]
    return compose_run(recipe, "cpu", [*overrides, *given], run=tmp_path / "run")


def rewarding(tmp_path: Path, body: str) -> Any:
    """The configuration with a reward function of this body."""
    file = tmp_path / "reward.py"
    file.write_text(f"def score(data_source, solution_str, ground_truth, extra_info=None):\n    {body}\n")
    return config(tmp_path, **{f"{REWARD}.path": str(file), f"{REWARD}.name": "score"})


def names(*found: Any) -> list[str]:
    return [finding.cause.name for finding in examine(*found)]


def test_every_key_that_a_cause_reads_is_in_the_configuration_of_a_run(tmp_path: Path):
    texts = "".join(file.read_text() for file in Path(updates.__file__).parent.glob("*.py"))
    keys = {*re.findall(r"\.value\(\"([\w.]+)\"", texts), *updates.TEACHING} - {"tools"}  # which not every run has
    missing = object()
    composed = RunRecord(OmegaConf.to_container(config(tmp_path)))
    assert len(keys) > 10 and [key for key in sorted(keys) if composed.value(key, missing) is missing] == []


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    return write_targets(tmp_path / "targets.parquet", rows=40)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return 1.0", "always_right"),
        ("return {'score': 0.0}", "always_wrong"),
        ("raise ValueError('no sympy')", "verifier_errors"),
    ],
)
def test_a_reward_function_is_tried_on_targets_and_on_other_answers(tmp_path: Path, targets: Path, body, cause):
    assert names(rewarding(tmp_path, body), targets, SHIPPED)[0] == cause


def test_good_targets_and_a_function_that_reads_the_answer_have_no_fault(tmp_path: Path, targets: Path):
    assert names(config(tmp_path), targets, SHIPPED) == []
    right = "return float('{' + ground_truth + '}' in solution_str)"
    assert names(rewarding(tmp_path, right), targets, SHIPPED) == []


@pytest.mark.parametrize(
    "body",
    [
        "def score(**_):\n    time.sleep(60)",
        "async def score(**_):\n    time.sleep(60)",
    ],
)
def test_a_function_that_hangs_is_asked_no_more(tmp_path: Path, targets: Path, body: str, monkeypatch):
    monkeypatch.setattr(before, "SECONDS", 0.5)
    (tmp_path / "reward.py").write_text(f"import asyncio, time\n{body}\n")
    run = config(tmp_path, **{f"{REWARD}.path": str(tmp_path / "reward.py"), f"{REWARD}.name": "score"})
    started = time.monotonic()
    assert names(run, targets, SHIPPED) == []
    assert time.monotonic() - started < 30  # one call of a minute is not waited for
    assert all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


def test_a_function_is_called_in_one_event_loop(tmp_path: Path, targets: Path):
    """As verl calls it: a lock or a client of the function belongs to the loop of its first call."""
    (tmp_path / "reward.py").write_text(
        "import asyncio\n"
        "async def score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    loop = asyncio.get_running_loop()\n"
        "    assert vars(asyncio).setdefault('first_loop_of_a_test', loop) is loop\n"
        "    return float('{' + ground_truth + '}' in solution_str)\n"
    )
    run = config(tmp_path, **{f"{REWARD}.path": str(tmp_path / "reward.py"), f"{REWARD}.name": "score"})
    try:
        assert names(run, targets, SHIPPED) == []
    finally:
        delattr(asyncio, "first_loop_of_a_test")


def traces(file: Path, before: str = "", without: int = 0) -> Path:
    """Eight targets that start with ``before``, of which the last ones have no target."""
    rows = pq.read_table(write_targets(file, rows=8)).to_pylist()
    for row in rows:
        row["target"][0]["content"] = f"{before}{row['target'][0]['content']}"
    for row in rows[8 - without :]:
        row["target"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=TARGET), file)
    return file


def test_rows_without_a_target_are_left_out(tmp_path: Path):
    some, none = traces(tmp_path / "some.parquet", without=3), traces(tmp_path / "none.parquet", without=8)
    assert (len(sample_rows(some)), len(sample_rows(none))) == (5, 0)
    assert names(config(tmp_path), some, SHIPPED) == names(config(tmp_path), none, SHIPPED) == []


def test_an_override_that_the_model_has_room_for_is_no_fault(tmp_path: Path, targets: Path):
    key = "actor_rollout_ref.model.override_config.max_position_embeddings"
    run = config(tmp_path, **{key: "2048"})
    assert names(run, targets, SHIPPED) == []
    short = tmp_path / "short"
    shutil.copytree(SHIPPED, short)
    write_json({**read_json(short / "config.json"), "max_position_embeddings": 96}, short / "config.json")
    assert names(run, targets, short) == ["context"]


def test_thoughts_that_a_template_opens_before_the_targets_do(tmp_path: Path, model_that_thinks: Path):
    assert names(config(tmp_path), traces(tmp_path / "t.parquet"), model_that_thinks) == []
    traces(tmp_path / "t.parquet", before="\n")
    assert names(config(tmp_path), tmp_path / "t.parquet", model_that_thinks) == ["thoughts_twice"]
    prompts = [row["prompt"][-1]["content"] for row in sample_rows(tmp_path / "t.parquet")]
    drawn = {prompt: [("7+5=12\n</think>\n\n\\boxed{12}", 24)] for prompt in prompts}
    assert names(config(tmp_path), tmp_path / "t.parquet", model_that_thinks, drawn) == ["thoughts_twice"]


@pytest.fixture
def model_that_thinks(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (model / name).write_bytes((SHIPPED / name).read_bytes())
    text = (SHIPPED / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text(
        text.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    )
    return model


def test_what_the_base_model_answers_counts(tmp_path: Path, targets: Path):
    rows = sample_rows(targets)
    rambling = "<think>\n</think>\n\\boxed{1} and so on and so on and so on"
    drawn = {row["prompt"][-1]["content"]: [(rambling, 144)] * 2 for row in rows}
    assert names(config(tmp_path), targets, SHIPPED, drawn)[0] == "end_token"
    drawn = {row["prompt"][-1]["content"]: [("<think>\n</think>\nIt is 1.", 20)] * 2 for row in rows}
    assert names(config(tmp_path), targets, SHIPPED, drawn) == ["no_box", "no_signal"]


def test_the_same_rows_are_looked_at_each_time(targets: Path, tmp_path: Path):
    rows = sample_rows(targets)
    assert len(rows) == PROMPTS and rows == sample_rows(targets)
    table = pq.read_table(targets)
    pq.write_table(table, tmp_path / "grouped.parquet", row_group_size=7)
    assert sample_rows(tmp_path / "grouped.parquet") == rows
    assert len(sample_rows(write_targets(tmp_path / "few.parquet", rows=3))) == 3
    for number, start in enumerate((0, 15)):
        pq.write_table(table.slice(start, 15 if number == 0 else None), shard_path(tmp_path / "s.parquet", number, 2))
    assert sample_rows(tmp_path / "s.parquet") == rows
    assert names(config(tmp_path), tmp_path / "s.parquet", SHIPPED) == []


def test_a_run_is_warned_before_it_starts_and_a_supervised_one_is_not(tmp_path: Path, targets: Path):
    said: list[tuple[int, str]] = []
    warn_before(rewarding(tmp_path, "return 1.0"), targets, SHIPPED, lambda step, text: said.append((step, text)))
    ((step, text),) = said
    assert step == 0 and "finds every answer right" in text and "docs/explain.md#always_right" in text
    warn_before(config(tmp_path, recipe="sft"), targets, SHIPPED, lambda *_: pytest.fail("a warning"))


def test_the_samples_of_the_first_step_are_looked_at_once(tmp_path: Path):
    said: list[tuple[int, str]] = []
    watch = Watch({"data": {"max_response_length": 9}}, lambda *given: said.append(given), rollouts=tmp_path)
    row = {"input": "p", "output": "hm", "gts": "1", "score": 0.0, "prefix_length": 0, "tokens": 9, "error": ""}
    for step in (1, 2, 3):
        (tmp_path / f"{step}.jsonl").write_text((json.dumps(row) + "\n") * 8)
        watch.step({"step": step, "data": {}})
        assert len(said) == (step > 1)
    ((step, text),) = said
    assert step == 1 and "cut at the limit" in text and "100%" in text


def test_a_look_that_fails_is_a_warning(tmp_path: Path):
    said: list[tuple[int, str]] = []
    warn_before(config(tmp_path), tmp_path / "none.parquet", SHIPPED, lambda *given: said.append(given))
    for step in (1, 2):
        (tmp_path / f"{step}.jsonl").write_text("{}\n")
    watch = Watch({}, lambda *given: said.append(given), rollouts=tmp_path)
    for step in (1, 2):
        watch.step({"step": step, "data": {}})
    assert [step for step, _ in said] == [0, 1]
    for (_, text), error in zip(said, ("FileNotFoundError", "InputError"), strict=True):
        assert text.startswith("the look for known causes failed, and the training goes on: ") and error in text
        assert "\n" not in text
