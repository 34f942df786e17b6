"""A training in MLflow: a real server, the client that verl uses, and what a reader of the server finds."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import manifests
import mlflow
import pytest
from mlflow import MlflowClient

from core.errors import InputError
from core.files import write_json
from core.model.lineage_file import write_manifest
from training.job.trackers import FILE, open_runs, publish

SCORES = {"base": {"benchmark": "sums", "mean": 0.25}, "policy": {"benchmark": "sums", "mean": 0.75}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "mlflow", "server", "--port", address.rsplit(":", 1)[1], "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/health", timeout=5).close()
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log").read_text()
                    time.sleep(0.5)
            yield address
        finally:
            process.terminate()


@pytest.fixture
def run(tmp_path, monkeypatch, server) -> Path:
    """The folder of a training."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def begin(run: Path, config: str = "a: 1") -> dict[str, str]:
    return open_runs(run, ["tensorboard", "mlflow"], project="luffy", name="luffy-seed0", config=config)


def log_steps(variables: dict[str, str], *steps: int) -> None:
    """Log as verl's tracker does."""
    mlflow.set_tracking_uri(variables["MLFLOW_TRACKING_URI"])
    with mlflow.start_run(run_id=variables["MLFLOW_RUN_ID"]):
        mlflow.log_params({"trainer/total_training_steps": 4})
        for step in steps:
            mlflow.log_metrics({"reward/on_policy": step / 4}, step=step)


def finish(run: Path) -> None:
    (run / "policy").mkdir()
    (run / "policy" / "model.safetensors").write_text("weights")
    write_manifest(run / "policy", manifests.manifest(upstream={"dagster_run": "r" * 36}))


def test_the_run_of_a_training_has_its_lineage_and_its_scorecard(run, server, tmp_path):
    first = begin(run)
    log_steps(first, 1, 2)
    again = begin(run)  # of a training that was killed
    assert again == first
    log_steps(again, 3, 4)
    finish(run)
    assert first["MLFLOW_RUN_ID"] in publish(run)[0]
    card = tmp_path / "card"
    card.mkdir()
    write_json({"rows": [SCORES]}, card / "scorecard.json")
    (card / "scorecard.html").write_text("<p>page</p>")
    for _ in range(2):  # a scorecard may be written again
        publish(run, card)

    client = MlflowClient(tracking_uri=server)
    manifest = json.loads((run / "policy" / "lineage.json").read_text())
    found = client.get_run(first["MLFLOW_RUN_ID"])
    assert (found.info.run_name, found.info.status) == ("luffy-seed0", "FINISHED")
    assert [m.step for m in client.get_metric_history(found.info.run_id, "reward/on_policy")] == [1, 2, 3, 4]
    for kept in (found.data.tags, found.data.params):
        assert kept["luffy.checkpoint_digest"] == manifest["checkpoint_digest"]
        assert (kept["luffy.targets_digest"], kept["luffy.recipe"], kept["luffy.seed"]) == ("t" * 64, "luffy", "0")
        assert (kept["luffy.identity"], kept["luffy.code_commit"]) == ("i" * 64, "c0ffee")
    (targets,) = found.inputs.dataset_inputs
    assert (targets.dataset.name, targets.dataset.digest) == ("targets", "t" * 36)
    assert json.loads(targets.dataset.profile) == {"rows": 1234, "sha256": "t" * 64}
    assert found.data.metrics["scorecard/sums/policy"] == 0.75
    files = {
        file.path for place in ("lineage", "scorecard") for file in client.list_artifacts(found.info.run_id, place)
    }
    assert files == {"lineage/lineage.json", "scorecard/scorecard.json", "scorecard/scorecard.html"}
    copy = client.download_artifacts(found.info.run_id, "lineage/lineage.json", str(tmp_path))
    assert json.loads(Path(copy).read_text()) == manifest


def test_another_configuration_gets_a_run_of_its_own(run):
    """MLflow refuses to change a parameter, and verl would go on without it."""
    assert begin(run)["MLFLOW_RUN_ID"] != begin(run, config="a: 2")["MLFLOW_RUN_ID"]


def test_without_a_server_the_run_is_in_the_folder_of_the_training(run, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    log_steps(begin(run), 1)
    finish(run)
    publish(run)
    assert (run / "mlflow.db").is_file()
    assert [file.name for file in (run / "mlartifacts").rglob("*.json")] == ["lineage.json"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://ada:pa55word@127.0.0.1:9"])
def test_a_server_that_does_not_answer_is_named_without_its_password(run, monkeypatch, address):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(InputError, match=r"no MLflow server answers at http://.*127\.0\.0\.1:9") as caught:
        begin(run)
    assert "pa55word" not in str(caught.value)
    assert not (run / FILE).exists()
