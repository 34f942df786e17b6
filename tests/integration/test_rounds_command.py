"""``luffy run --rounds`` for real: an exact teacher, verl and vLLM; the command is killed in a training and resumes."""

import json
import re
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
COMMAND = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--profile", "rounds", "--rounds", "2"]
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
            "LUFFY__GENERATE__BUDGET_TOKENS": "600",
            "LUFFY__BENCHMARKS__LIMIT": "4",
            "LUFFY__TARGETS__MIN_ROWS": "1",
            "LUFFY__TRAINING__CONFIG": json.dumps(CONFIG),
        }
        storage, log = tmp_path / "storage", tmp_path / "log"
        with log.open("w") as file:
            process = subprocess.Popen(COMMAND, cwd=ROOT, env=environment, stdout=file, stderr=file)
        while log.read_text().count("training/policy   step 1 of 2") < 2:
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        first = json.loads(next(storage.glob("rounds/round/*/round.json")).read_text())
        done = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert asked and set(asked.values()) == {1}  # the teacher was asked nothing twice
    assert len(list(storage.glob("training/policy/*"))) == 2  # and no round was trained twice
    second = read_manifest(Path(read_reference(storage, "training/policy")["path"]))
    assert second.attempts == 2 and second.steps == 2
    assert second.base_model.digest == first["digest"]
    shown = [line.split() for line in done.stdout.splitlines() if re.match(r" *[12] +\d+ of 24", line)]
    tokens = [int(line[5].replace(",", "")) for line in shown]
    assert len(shown) == 2 and 0 < tokens[0] <= 600 and tokens[0] < tokens[1] <= 1200
    assert int(shown[1][4]) == len(asked)
