"""``luffy rounds`` for real: an exact teacher, verl and vLLM; the command is killed in a training and resumes."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from processes import clean_environment
from storages import read_reference

pytest.importorskip("dagster", reason="no Dagster in the training interpreter")

from core.model.lineage_file import read_manifest
from research.shipped_weights import exact_teacher

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pipelines.cli.luffy", "rounds", "--profile", "rounds"]
CONFIG = {
    "data": {"train_batch_size": 4, "max_prompt_length": 64, "max_response_length": 144},
    "actor_rollout_ref": {"rollout": {"n": 4}},
    "trainer": {"total_training_steps": 2, "save_freq": 1},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the teacher was asked each problem."""
    counts: Counter[str] = Counter()
    answer = exact_teacher.answer

    def counted(messages: Any, lengths: Any) -> Any:
        counts[messages[-1]["content"]] += 1
        return answer(messages, lengths)

    monkeypatch.setattr(exact_teacher, "answer", counted)
    return counts


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_rounds_that_are_killed_go_on_where_they_were(tmp_path: Path, asked: Counter[str]) -> None:
    exact_teacher.write_problems(tmp_path / "problems.jsonl", 24)
    with exact_teacher.serve() as teacher:
        environment = clean_environment()
        environment |= {
            "DAGSTER_HOME": str(tmp_path / "home"),
            "LUFFY__STORAGE__ROOT": str(tmp_path / "storage"),
            "LUFFY__GENERATE__TEACHER": teacher,
            "LUFFY__GENERATE__PROBLEMS": str(tmp_path / "problems.jsonl"),
            "LUFFY__BENCHMARKS__LIMIT": "4",
            "LUFFY__ROUNDS__NUMBER": "2",
            "LUFFY__ROUNDS__BUDGET_TOKENS": "600",
            "LUFFY__TRAINING__CONFIG": json.dumps(CONFIG),
        }
        storage, log = tmp_path / "storage", tmp_path / "log"
        with log.open("w") as file:
            process = subprocess.Popen(COMMAND, cwd=ROOT, env=environment, stdout=file, stderr=file)
        while "rounds/2/policy   step 1 of 2" not in log.read_text():
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        first = read_reference(storage, "rounds/1/policy")
        done = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert asked and set(asked.values()) == {1}  # the teacher was asked nothing twice
    assert len(list(storage.glob("training/policy/*"))) == 2  # and no round was trained twice

    references = {
        (number, name): read_reference(storage, f"rounds/{number}/{name}")
        for number in (1, 2)
        for name in ("traces", "policy")
    }
    tokens = [references[number, "traces"]["teacher_tokens"] for number in (1, 2)]
    assert all(0 < spent <= 600 for spent in tokens)
    assert sum(asked.values()) == references[2, "traces"]["rows"]
    second = read_manifest(Path(references[2, "policy"]["path"]))
    assert references[1, "policy"] == first
    assert second.attempts == 2 and second.steps == 2
    assert second.base_model.digest == first["digest"] == second.upstream["targets"]["policy_before"]
    round_facts = ("round", "teacher_tokens", "teacher_tokens_in_all")
    assert [second.upstream["targets"][name] for name in round_facts] == [2, tokens[1], sum(tokens)]
    rounds = [line for line in done.stdout.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
    assert len(rounds) == 2 and f"| {tokens[0]:,} |" in rounds[0] and f"| {sum(tokens):,} |" in rounds[1]
