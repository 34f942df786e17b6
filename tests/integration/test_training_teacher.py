"""A teacher behind an endpoint scores the samples of a training: vLLM's own server, on the CPU."""

from pathlib import Path

import pytest

pytest.importorskip("vllm")

from generation_runs import answered, served
from training_inputs import write_targets
from training_runs import Training

from core.model.base_model import SHIPPED
from core.model.lineage_file import read_manifest


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_endpoint_scores_each_sample_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = write_targets(tmp_path / "train.parquet", 8)
    with served(SHIPPED, tmp_path / "log") as url:
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        refused = Training(tmp_path / "run", targets, "opd", method__teacher__model=f"tiny@{url}")
        assert refused.end(300) == 2 and "Check the address, the name of the model and OPENAI_API_KEY" in refused.said
        monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
        before = answered(url)
        run = Training(tmp_path / "run", targets, "opd", method__teacher__model=f"tiny@{url}")
        assert run.end() == 0, run.said + (tmp_path / "run" / "attempts" / "0001.log").read_text()[-3000:]
        assert answered(url) - before == 1 + 2 * 16  # one question before the start, then one for each sample
    first, second = (record["data"] for record in run.metrics())
    assert abs(first["distillation/kl"]) < 1e-4 < second["distillation/kl"]  # it starts from the teacher, and leaves it
    manifest = read_manifest(tmp_path / "run" / "policy")
    assert (
        f"teacher.model=tiny@{url}" in manifest.request.overrides
        and "method.teacher.model" not in manifest.request.files
    )
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert not any(b"s3cret" in file.read_bytes() for file in files)
