"""The processes of ``deploy/compose.yaml`` by hand against a real Postgres, and secrets that must show up nowhere."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from processes import clean_environment

pytest.importorskip("dagster_postgres", reason="no dagster-postgres in this interpreter")

from tests.deployment import Deployment, Postgres, marked, no_postgres
from tests.deployment import postgres as started_postgres

ROOT = Path(__file__).parents[2]
SECRETS = {
    "LUFFY_WEBHOOK_URL": "http://127.0.0.1:9/planted-5ecret-webhook",
    "LUFFY_MAIL_PASSWORD": "planted-5ecret-mail",
    "HF_TOKEN": "hf_planted5ecretTOKEN",
    "AWS_SECRET_ACCESS_KEY": "planted5ecretAWS",
}
MARKS = [b"5ecret"]


CONFIG = {
    "data": {"train_batch_size": 4, "max_prompt_length": 64, "max_response_length": 144},
    "actor_rollout_ref": {"rollout": {"n": 4}},
}
SMALL = {
    "LUFFY__TARGETS__EMBEDDED_ROWS": "300",
    "LUFFY__BENCHMARKS__LIMIT": "8",
    "LUFFY__EVALUATION__MAX_TOKENS": "64",
    "LUFFY__TRAINING__CONFIG": json.dumps({**CONFIG, "trainer": {"total_training_steps": 2, "save_freq": 2}}),
}


def planted(*folders: Path) -> list[str]:
    """Files below ``folders`` in which a planted secret can be read."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [str(file) for file in files if any(mark in file.read_bytes() for mark in MARKS)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A Postgres of the test's own."""
    if missing := no_postgres():
        pytest.skip(missing)
    with started_postgres() as server:
        yield server


@pytest.fixture
def deployment(tmp_path: Path, postgres: Postgres) -> Iterator[Deployment]:
    started = Deployment(tmp_path, postgres, SMALL | SECRETS)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.mark.slow
def test_killed_webserver_and_daemon_lose_nothing(deployment: Deployment) -> None:
    first = deployment.launch("benchmarks/suite")
    second = deployment.launch("models/base")
    deployment.kill("daemon", "webserver")  # launched or still queued: either way they go on
    deployment.start("webserver", "daemon")
    third = deployment.launch("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected")
    going = {first, second, third}
    deployment.wait(lambda runs: runs.keys() >= going and runs[third] == "STARTED")
    deployment.kill("webserver", "daemon")
    deployment.start("webserver", "daemon")
    found = deployment.wait(lambda runs: all(runs[run] == "SUCCESS" for run in going))
    assert found.keys() == going
    query = """query ($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) {
        ... on AssetNode { assetMaterializations { runId } } } }"""
    expected = {"models/base": {second, third}, "benchmarks/suite": {first, third}, "targets/prepared": {third}}
    for asset, runs in expected.items():
        made = deployment.ask(query, k={"path": asset.split("/")})["assetNodeOrError"]["assetMaterializations"]
        assert {entry["runId"] for entry in made} == runs
    assert not planted(deployment.home, deployment.folder / "storage", deployment.folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_outlives_half_a_minute_without_postgres(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    home.mkdir()
    (home / "dagster.yaml").write_text(postgres.configuration())
    longer = {**CONFIG, "trainer": {"total_training_steps": 12, "save_freq": 2}}
    settings = SMALL | {"LUFFY__TRAINING__CONFIG": json.dumps(longer)}
    ours = {"DAGSTER_HOME": str(home), "LUFFY__STORAGE__ROOT": str(storage)}
    variables = clean_environment() | ours | settings | postgres.variables
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", "+key:training/policy"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        run = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=output, stderr=output)
    while not list(storage.glob("training/policy/*/attempts/*.jsonl")):
        assert run.poll() is None, log.read_text()
        time.sleep(0.2)
    postgres.stop()
    time.sleep(30)
    before = log.read_text()
    postgres.start()
    assert run.wait(400) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert re.search(r"training/policy +done +[\d.]+ s  12 steps", log.read_text().removeprefix(before))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.get() as instance:
        (newest, *_) = instance.get_runs(limit=1)
        said = [entry.user_message for entry in instance.all_logs(newest.run_id)]
        observed = instance.fetch_observations(dg.AssetKey(["training", "metrics"]), limit=100).records
    assert {int(match[1]) for text in said if (match := re.match(r"step (\d+) of 12", text))} == set(range(1, 13))
    metadata = [record.asset_observation.metadata for record in observed if record.asset_observation]
    assert {str(entry["step"].value) for entry in metadata} == {
        str(step) for step in range(1, 13)
    }  # the curves have no hole


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_trainings_take_turns_on_the_gpu(deployment: Deployment) -> None:
    parts = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
    prepared = deployment.launch(*parts)
    deployment.wait(lambda runs: runs.get(prepared) == "SUCCESS")
    trainings = [deployment.launch("training/policy", seed=seed) for seed in (1, 2)]
    at_once: set[int] = set()

    def ended(count: int) -> bool:
        at_once.add(sum(bool(marked(run)) for run in trainings))
        return [deployment.runs()[run] for run in trainings].count("SUCCESS") >= count

    deployment.wait(lambda _: ended(1))
    deployment.wait(lambda _: ended(2))
    assert at_once == {0, 1}
    query = """query ($r: ID!) { logsForRun(runId: $r) { ... on EventConnection {
        events { ... on MessageEvent { message } } } } }"""
    events = [event for run in trainings for event in deployment.ask(query, r=run)["logsForRun"]["events"]]
    said = [event.get("message", "") for event in events]
    assert any(message.startswith("waits for the training slot (run ") for message in said)


@pytest.mark.slow
def test_two_runs_go_on_at_once(deployment: Deployment) -> None:
    parts = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
    going = {deployment.launch(*parts), deployment.launch(*parts)}
    deployment.wait(lambda runs: all(runs.get(run) == "STARTED" for run in going))
    deployment.wait(lambda runs: all(runs[run] == "SUCCESS" for run in going))
    folders = list((deployment.folder / "storage" / "targets" / "train").iterdir())
    assert len(folders) == 1 and not folders[0].name.startswith(".")  # the same content, made once or found


def test_nothing_of_the_secrets_is_kept_by_a_run_that_fails(tmp_path: Path) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    variables = {"DAGSTER_HOME": str(home), "LUFFY__STORAGE__ROOT": str(storage), **SECRETS}
    variables["LUFFY__MODEL__SOURCE"] = "no/such/model"
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", "group:models or group:benchmarks"]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment() | variables, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1 and "no/such/model" in done.stderr
    assert list(storage.rglob("suite.parquet"))
    assert "5ecret" not in done.stdout + done.stderr
    assert not planted(home, storage)
    (home / "note.txt").write_text(SECRETS["HF_TOKEN"])
    assert planted(home, storage) == [str(home / "note.txt")]  # the search does find one
