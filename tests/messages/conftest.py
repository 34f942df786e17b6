"""How a row of bad inputs is run: each ends in one line that helps, with status 2, and leaves nothing behind.

The commands run in this process, because their imports take longer than they do; a few run as a user starts them.
"""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from processes import clean_environment
from rows import Row

from core.backends.supervisor import SUPERVISOR

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "evaluation": "evaluation.__main__",
    "research": "research.__main__",
    "targets": "targets.__main__",
    "training": "training.__main__",
}
PROGRESS = re.compile(r"[a-z ]+: [\d,]+( of [\d,]+)?$|$")  # what comes before, on the same stream
# DAGSTER_HOME, decisions that a preparation keeps for the next one, a lock, and what Python keeps of a user's module
LATE = ("home", ".decisions", ".lock", "__pycache__")


@pytest.fixture(scope="session")
def good_inputs(tmp_path_factory) -> Path:
    """model/, policy/, suite.parquet, samples/, graded/, targets.parquet and traces.jsonl."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from training_inputs import write_targets

    from core.arithmetic import problems
    from core.files import write_table, write_text
    from core.schemas import GRADED, SAMPLE
    from evaluation.__main__ import main

    folder = tmp_path_factory.mktemp("good")
    shutil.copytree(ROOT / "training" / "embedded_model" / "model", folder / "model")
    shutil.copytree(folder / "model", folder / "policy")
    assert (
        main(["suite", "--set", "suite.only=[arithmetic]", "--limit", "2", "--out", str(folder / "suite.parquet")]) == 0
    )
    suite = pq.read_table(folder / "suite.parquet").to_pylist()
    sample = {"benchmark": "arithmetic", "sample": 0, "tokens": 1, "finish_reason": "stop", "seed": 0}
    rows = [{**sample, "id": row["id"], "prompt": "p", "response": r"\boxed{1}"} for row in suite]
    write_table(pa.Table.from_pylist(rows, schema=SAMPLE), folder / "samples" / "arithmetic.parquet")
    verdict = {"gold": "1", "extracted": "1", "verdict": "correct", "score": 1.0}
    graded = pa.Table.from_pylist([{**row, **verdict} for row in rows], schema=GRADED)
    write_table(graded, folder / "graded" / "arithmetic.parquet")
    write_targets(folder / "targets.parquet", rows=8)
    traces = list(problems("train", 8, seed=0))
    lines = [f'{{"problem": "{t.problem}", "answer": "{t.answer}", "response": {json.dumps(t.trace)}}}' for t in traces]
    write_text("\n".join(lines) + "\n", folder / "traces.jsonl")
    return folder


def prepare(row: Row, good_inputs: Path, here: Path) -> tuple[list[str], dict[str, str]]:
    """Write the row's files; returns its command line and its variables."""
    shutil.copytree(good_inputs, here, dirs_exist_ok=True)
    command, files, _ = row
    for file, content in files.items():
        path = here / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        elif callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    words = shlex.split(command.replace("{here}", str(here)))
    variables = {"DAGSTER_HOME": str(here / "home"), "LUFFY__STORAGE__ROOT": str(here / "storage")}
    variables["LUFFY__INTERPRETER__PYTHON"] = "/no/python"  # where nothing is refused, no training starts
    while words[0].partition("=")[0].isupper() and "=" in words[0]:
        variable, _, value = words.pop(0).partition("=")
        variables[variable] = value
    return words, variables


def listing(here: Path) -> set[str]:
    paths = (path.relative_to(here) for path in here.rglob("*"))
    return {str(path) for path in paths if path.parts[0] not in LATE and not set(path.parts) & set(LATE)}


def check(row: Row, status: int, errors: str, before: set[str], here: Path) -> None:
    lines = [line for line in errors.splitlines() if not PROGRESS.match(line)]
    assert status == 2, errors
    assert len(lines) == 1, errors
    assert lines[0].startswith("error: ") and row[2].replace("{here}", str(here)) in lines[0], lines[0]
    assert len(lines[0]) < 1000
    left = {path for path in listing(here) - before if (here / path).is_file()}
    assert left == set()


@pytest.fixture
def refuse(good_inputs, tmp_path, monkeypatch, capfd) -> Callable[[Row], None]:
    """Runs the command of a row here and checks how it ends."""

    def run(row: Row) -> None:
        words, variables = prepare(row, good_inputs, tmp_path)
        for variable in [key for key in os.environ if key.startswith(("LUFFY", "DAGSTER", "HF_"))]:
            monkeypatch.delenv(variable)
        supervised = {SUPERVISOR: str(os.getppid())}  # a training would replace this process
        for variable, value in {**variables, **supervised, "HF_HUB_OFFLINE": "1"}.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.chdir(tmp_path)
        # Dagster's definitions are built when this module is loaded.
        monkeypatch.delitem(sys.modules, "pipelines.definitions.code_location", raising=False)
        module = importlib.import_module(MODULES.get(words[0], words[0]))
        before, mask = listing(tmp_path), os.umask(0o077)
        try:
            with patch.dict(os.environ):  # commands set variables for the processes that they start
                if words[0] in ("evaluation", "research", "research.shipped_weights.base_model"):
                    status = module.main(words[1:])
                else:
                    status = module.exit_status(lambda: module.main(words[1:]))
        finally:
            os.umask(mask)
        check(row, status, capfd.readouterr().err, before, tmp_path)

    return run


@pytest.fixture
def refuse_process(good_inputs, tmp_path) -> Callable[[Row], None]:
    """As `refuse`, in a process of its own."""

    def run(row: Row) -> None:
        words, variables = prepare(row, good_inputs, tmp_path)
        kept = clean_environment()
        before = listing(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**kept, **variables, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        check(row, done.returncode, done.stderr, before, tmp_path)

    return run
