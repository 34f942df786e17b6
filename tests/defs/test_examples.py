"""The rows of examples/tasks.py are right by the verifiers of their profiles, and become targets."""

import shutil
from pathlib import Path

import pytest

from evaluation.benchmarks.benchmark_problems import read_suite
from examples import tasks
from grading.verifiers.spec import read_spec
from targets.prepare import prepare
from tests.defs.project import settings_of

TOKENIZER = Path(__file__).resolve().parents[2] / "training" / "embedded_model" / "model"


@pytest.mark.parametrize(("profile", "rows", "held_out"), [("choice", 46, 12), ("code", 20, 4)])
def test_the_rows_of_a_profile_become_its_targets_and_its_benchmark(
    profile: str, rows: int, held_out: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if profile == "code" and not shutil.which("bwrap"):
        pytest.skip("bwrap is not installed")
    monkeypatch.setattr(tasks, "OUT", tmp_path)
    tasks.main()
    settings = settings_of(LUFFY_PROFILE=profile)
    (source,) = settings.targets.sources
    assert Path(source.path).name == f"{profile}.jsonl"
    config = settings.targets.model_copy(
        update={"source": [source.model_copy(update={"path": str(tmp_path / f"{profile}.jsonl")})]}
    )
    suite = read_suite(settings.suite.entries(), [tmp_path])
    assert suite.num_rows == held_out
    prepared = prepare(config, tmp_path / "out", benchmarks=suite, tokenizer_json=TOKENIZER)
    assert prepared.counts == {"read": rows, "kept": rows - held_out, "contaminated": held_out}
    assert {read_spec(text, "suite") for text in suite["verifier"].to_pylist()} == {source.spec}
