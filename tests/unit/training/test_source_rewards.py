"""Rewards by source: each row is graded by the verifier of its source, and verifiers that fail stop the run."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.schemas import TARGET
from grading.verifiers.spec import parse_spec
from training.config.to_verl import compose_run
from training.job.input_checks import read_verifiers
from training.run import _fill_in
from training.verl_hooks.reward import (
    compute_score,
    compute_score_whole_text,
    is_solved,
    require_few_errors,
    reward_info,
)

SPECS = {
    "sums": "math",
    "colours": "choice",
    "places": {"type": "exact", "answer": "tag:answer", "ignore": ["case", "space"]},
}
COLOURS = "Which?\nA. red\nB. blue"


def score(source: str, answer: str, gold: str, function: Any = compute_score, **extra: Any) -> tuple[float, bool, str]:
    info = function(source, f"<think>\nhm\n</think>\n\n{answer}", gold, extra, verifiers=json.dumps(SPECS))
    return info["score"], info["solved"], info["error"]


@pytest.mark.parametrize(
    ("source", "answer", "gold", "expected"),
    [
        ("sums", "\\boxed{0.5}", "1/2", 1.0),
        ("sums", "<answer>1/2</answer>", "1/2", 0.0),
        ("colours", "\\boxed{B}", "B", 1.0),
        ("colours", "\\boxed{blue}", "B", 1.0),
        ("colours", "\\boxed{red}", "B", 0.0),
        ("places", "<answer>lima</answer>", "Lima", 1.0),
        ("places", "\\boxed{Lima}", "Lima", 0.0),
    ],
)
def test_each_source_has_its_verifier(source: str, answer: str, gold: str, expected: float) -> None:
    assert score(source, answer, gold, problem=COLOURS) == (expected, expected == 1, "")
    assert score(source, answer, gold, problem=COLOURS, truncated=True)[0] == 0.0


def test_fields_of_a_row_reach_its_verifier() -> None:
    fields = json.dumps({"options": ["red", "blue"]})
    assert score("colours", "\\boxed{blue}", "B", fields=fields)[0] == 1.0
    assert score("colours", "\\boxed{red}", "B", fields=fields)[0] == 0.0


def test_the_published_rule_is_that_of_mathematics_alone() -> None:
    assert score("sums", "So it is 2.", "2")[0] == 0.0
    assert score("sums", "So it is 2.", "2", compute_score_whole_text)[0] == 1.0
    assert score("places", "Lima", "Lima", compute_score_whole_text)[0] == 0.0


def test_a_sample_is_right_as_its_verifier_says() -> None:
    assert is_solved(reward_info({"reward_extra_info": {"solved": True}}), 0.8)
    assert not is_solved({"solved": False}, 1.0)
    assert is_solved(reward_info({}), 1.0) and not is_solved({"acc": 1.0}, 0.5)  # another reward function


def test_few_errors_are_counted_and_many_stop_the_step() -> None:
    sources = ["sums"] * 15 + ["law"] * 5
    require_few_errors(3, [""] * 19 + ["ValueError: x"], sources)
    expected = r"step 3: the verifier of law failed on 2 of 20 samples, more than 5%; the first: ValueError: x\."
    with pytest.raises(RuntimeError, match=expected):
        require_few_errors(3, [""] * 17 + ["ValueError: x", "", "KeyError: y"], sources)
    require_few_errors(3, [], [])


def targets(path: Path, sources: list[str], metadata: dict[str, Any] | None) -> Path:
    rows = [
        {
            "data_source": name,
            "prompt": [{"role": "user", "content": f"{number}=?"}],
            "target": [],
            "ability": "",
            "reward_model": {"style": "", "ground_truth": "1"},
            "extra_info": {},
        }
        for number, name in enumerate(sources)
    ]
    schema = TARGET if metadata is None else TARGET.with_metadata({"verifiers": json.dumps(metadata)})
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def records(*names: str) -> dict[str, Any]:
    specs = {name: parse_spec(SPECS[name], "test") for name in names}
    return {name: {"verifier": SPECS[name], "digest": spec.digest} for name, spec in specs.items()}


def filled(data: Path, problems: Path) -> dict[str, Any]:
    config = compose_run("luffy", "cpu", [], run=data.parent)
    _fill_in(config, data=data, problems=problems, rows=64, model=data.parent)
    return dict(config.reward.custom_reward_function)


def test_the_reward_is_told_the_verifiers_of_training_and_validation(tmp_path: Path) -> None:
    data = targets(tmp_path / "train.parquet", ["sums", "colours"], records("sums", "colours"))
    problems = targets(tmp_path / "val.parquet", ["places"], records("places"))
    assert json.loads(filled(data, problems)["reward_kwargs"]["verifiers"]) == SPECS


def test_verifiers_that_are_missing_or_have_changed_are_one_message(tmp_path: Path) -> None:
    file = targets(tmp_path / "a.parquet", ["sums", "law"], records("sums", "places"))
    with pytest.raises(
        InputError, match="no verifier for data_source 'law': the file's metadata has verifiers of sums, pl"
    ):
        read_verifiers(file)
    changed = records("sums") | {"places": {"verifier": SPECS["places"], "digest": "0"}}
    file = targets(tmp_path / "b.parquet", ["places"], changed)
    with pytest.raises(InputError, match=r"the verifier of places has changed since .* prepare the targets again"):
        read_verifiers(file)
    assert set(read_verifiers(targets(tmp_path / "c.parquet", ["x", ""], None))) == {"x", ""}
