"""A model folder makes the vectors of problems: vLLM's server serves it for as long as they are computed."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from core.errors import InputError
from core.existing_python import TRAIN_PYTHON
from targets.embedding.server import MODULE
from tests.preparing import rows, run

SHIPPED = Path("training/embedded_model/model").absolute()


def servers() -> list[psutil.Process]:
    processes = psutil.Process().children(recursive=True)
    return [process for process in processes if MODULE in process.cmdline()]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not TRAIN_PYTHON.is_file(), reason="make setup builds the training interpreter, which has vLLM")
def test_a_folder_is_served_while_vectors_are_computed(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shipped model has learned sums: those of the same numbers are alike for it."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sums = ("1+2=?", "2+1=?", "9-8+7-6+5=?")
    traces = [good(4, problem=problem) for problem in sums]
    chosen = {"model": str(SHIPPED), "semantic_duplicate": 80}
    cache, source = tmp_path / "cache", jsonl(*traces)
    prepared = run(source, tmp_path / "out", tokenizer, cache=cache, embedding=chosen)
    assert [(row["problem"], row["reason"]) for row in rows(prepared.rejected)] == [("2+1=?", "semantic_duplicate")]
    assert not servers()

    monkeypatch.setattr("targets.embedding.server.MODULE", "no.server")  # the vectors are there: none starts
    again = run(source, tmp_path / "again", tokenizer, cache=cache, embedding=chosen | {"semantic_duplicate": 99.9})
    assert again.counts["kept"] == len(sums)


def test_a_folder_that_cannot_be_served_is_named(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    chosen = {"model": str(tmp_path / "model"), "semantic_duplicate": 80}
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match="no model_type in it"):
        run(jsonl(good(1)), tmp_path / "out", tokenizer, embedding=chosen)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(InputError, match=r"served on this machine only.* give its address as embedding.url"):
        run(jsonl(good(1)), tmp_path / "out", tokenizer, embedding=chosen | {"model": str(SHIPPED)})
