"""The processes of ``deploy/compose.yaml`` by hand against a real Postgres, and secrets that must show up nowhere."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dagster_postgres", reason="no dagster-postgres in this interpreter")

ROOT = Path(__file__).parents[2]
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
START_SECONDS = 120
SECRETS = {
    "LUFFY_WEBHOOK_URL": "http://127.0.0.1:9/planted-5ecret-webhook",
    "LUFFY_MAIL_PASSWORD": "planted-5ecret-mail",
    "HF_TOKEN": "hf_planted5ecretTOKEN",
    "AWS_SECRET_ACCESS_KEY": "planted5ecretAWS",
}
MARKS = [b"5ecret"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LUFFY", "DAGSTER"))}
    return kept | {"PYTHONPATH": str(ROOT)} | more


def planted(*folders: Path) -> list[str]:
    """Files below ``folders`` in which a planted secret can be read."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [str(file) for file in files if any(mark in file.read_bytes() for mark in MARKS)]


class Postgres:
    """A server in ``folder``, which is not run as root."""

    def __init__(self, folder: Path, as_user: list[str]) -> None:
        self.folder = folder
        self.port = free_port()
        self._as_user = as_user
        password = folder / "password"
        password.write_text("planted-5ecret-postgres")
        if as_user:
            shutil.chown(password, "postgres", "postgres")
        options = ["-D", str(folder / "data"), "-U", "luffy", "-A", "scram-sha-256", "--pwfile", str(password)]
        subprocess.run([*as_user, str(POSTGRES[-1] / "initdb"), *options], check=True, capture_output=True, cwd="/tmp")
        self.start()

    def start(self) -> None:
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "unix_socket_directories="]
        command = [*self._as_user, str(POSTGRES[-1] / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/tmp")
        wait_for_port(self.port, self.server, self.folder / "log")

    def stop(self) -> None:
        """As an administrator does it who restarts the server: open connections are cut."""
        self.server.send_signal(signal.SIGINT)
        self.server.wait(30)

    @property
    def variables(self) -> dict[str, str]:
        """What ``deploy/dagster-postgres.yaml`` reads, and the port."""
        return {
            "LUFFY_POSTGRES_HOST": "127.0.0.1",
            "LUFFY_POSTGRES_USER": "luffy",
            "LUFFY_POSTGRES_DB": "postgres",
            "LUFFY_COMPUTE_LOGS": str(self.folder / "logs"),
            "LUFFY_POSTGRES_PASSWORD": "planted-5ecret-postgres",
            "PORT": str(self.port),
        }


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A Postgres of the test's own."""
    if not POSTGRES:
        pytest.skip("no Postgres binaries in /usr/lib/postgresql: apt-get install postgresql")
    # Postgres refuses to run as root, and its user cannot look into pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="luffy-postgres-"))
    as_user: list[str] = []
    if os.getuid() == 0:
        if not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
            pytest.skip("no user postgres, and Postgres does not run as root")
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    made = Postgres(folder, as_user)
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def database(postgres: Postgres) -> dict[str, str]:
    """The variables of the database."""
    return postgres.variables


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, f"it ended before it listened: {log.read_text()[-2000:]}"
        assert time.monotonic() < end, f"nothing listens on {port} after {START_SECONDS} s"
        time.sleep(0.2)


class Deployment:
    """Code server, webserver and daemon, each a process that can be killed and started again."""

    def __init__(self, folder: Path, database: dict[str, str]) -> None:
        self.folder = folder
        self.ports = {"code": free_port(), "webserver": free_port()}
        self.home = folder / "home"
        self.home.mkdir()
        config = (ROOT / "deploy/dagster-postgres.yaml").read_text().replace("port: 5432", f"port: {database['PORT']}")
        (self.home / "dagster.yaml").write_text(config)
        workspace = (ROOT / "deploy/workspace.yaml").read_text()
        workspace = workspace.replace("host: code", "host: 127.0.0.1").replace("4000", str(self.ports["code"]))
        (folder / "workspace.yaml").write_text(workspace)
        self.environment = environment(
            DAGSTER_HOME=str(self.home),
            LUFFY__STORAGE__ROOT=str(folder / "storage"),
            LUFFY__TARGETS__EMBEDDED_ROWS="300",
            LUFFY__BENCHMARKS__LIMIT="8",
            **{name: value for name, value in database.items() if name != "PORT"},
            **SECRETS,
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        programs = Path(sys.executable).parent
        where = ["-w", str(self.folder / "workspace.yaml")]
        command = {
            "code": ["dagster", "code-server", "start", "-h", "127.0.0.1", "-p", str(self.ports["code"])],
            "webserver": ["dagster-webserver", "-h", "127.0.0.1", "-p", str(self.ports["webserver"]), *where],
            "daemon": ["dagster-daemon", "run", *where],
        }[name]
        command += ["-m", "pipelines.definitions.code_location"] if name == "code" else []
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(programs / command[0]), *command[1:]],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if name in self.ports:
            wait_for_port(self.ports[name], self.running[name], self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        """As a power cut does it."""
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer of the webserver's GraphQL."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['webserver']}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def launch(self, *assets: str) -> str:
        query = """mutation ($p: ExecutionParams!) { launchRun(executionParams: $p) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
        selector = {
            "repositoryLocationName": "luffy",
            "repositoryName": "__repository__",
            "jobName": "everything",
            "assetSelection": [{"path": asset.split("/")} for asset in assets],
            "assetCheckSelection": [],
        }
        answer = self.ask(query, p={"selector": selector, "mode": "default", "runConfigData": {}})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def runs(self) -> dict[str, str]:
        found = self.ask("{ runsOrError { ... on Runs { results { runId status } } } }")
        return {run["runId"]: run["status"] for run in found["runsOrError"]["results"]}

    def wait(self, until: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        end = time.monotonic() + 240
        while not until(found := self.runs()):
            assert time.monotonic() < end, found
            assert not set(found.values()) & {"FAILURE", "CANCELED"}, found
            time.sleep(0.5)
        return found


@pytest.fixture
def deployment(tmp_path: Path, database: dict[str, str]) -> Iterator[Deployment]:
    made = Deployment(tmp_path, database)
    try:
        for name in ("code", "webserver", "daemon"):
            made.start(name)
        yield made
    finally:
        made.stop()


@pytest.mark.slow
def test_killed_webserver_and_daemon_lose_nothing(deployment: Deployment) -> None:
    first = deployment.launch("benchmarks/suite")
    second = deployment.launch("models/base")
    deployment.kill("daemon")  # launched or still queued: either way they go on
    deployment.kill("webserver")
    deployment.start("webserver")
    deployment.start("daemon")
    third = deployment.launch("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected")
    going = {first, second, third}
    deployment.wait(lambda runs: runs.keys() >= going and runs[third] == "STARTED")
    deployment.kill("webserver")
    deployment.kill("daemon")
    deployment.start("webserver")
    deployment.start("daemon")
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
def test_a_run_outlives_a_restart_of_postgres(postgres: Postgres, tmp_path: Path) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    home.mkdir()
    config = (ROOT / "deploy/dagster-postgres.yaml").read_text().replace("port: 5432", f"port: {postgres.port}")
    (home / "dagster.yaml").write_text(config)
    variables = environment(DAGSTER_HOME=str(home), LUFFY__STORAGE__ROOT=str(storage), **postgres.variables)
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", "+group:targets"]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            [*command, "--set", "targets.embedded_rows=20000"], cwd=ROOT, env=variables, stdout=log, stderr=log
        )
    while not list((storage / "targets" / "prepared").glob(".*.tmp")):  # the step is at work, and says how far it is
        assert run.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.2)
    postgres.stop()
    time.sleep(3)
    postgres.start()
    assert run.wait(400) == 0, (tmp_path / "log").read_text()
    lines = (tmp_path / "log").read_text()
    assert re.search(r"targets/prepared +done", lines) and re.search(r"(\d+) of \1 checks passed", lines)


@pytest.mark.slow
def test_two_runs_go_on_at_once(deployment: Deployment) -> None:
    parts = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
    going = {deployment.launch(*parts), deployment.launch(*parts)}
    deployment.wait(lambda runs: all(runs.get(run) == "STARTED" for run in going))
    deployment.wait(lambda runs: all(runs[run] == "SUCCESS" for run in going))
    folders = list((deployment.folder / "storage" / "targets" / "train").iterdir())
    assert len(folders) == 1 and not folders[0].name.startswith(".")  # the same content, made once or found


EXPERIMENTS = {
    "LUFFY__TARGETS__EMBEDDED_ROWS": "300",
    "LUFFY__BENCHMARKS__LIMIT": "8",
    "LUFFY__EVALUATION__MAX_TOKENS": "64",
    "LUFFY__TRAINING__OVERRIDES": json.dumps(
        [
            "data.train_batch_size=4",
            "data.max_prompt_length=64",
            "data.max_response_length=144",
            "actor_rollout_ref.rollout.n=4",
            "trainer.total_training_steps=2",
            "trainer.save_freq=2",
        ]
    ),
}


def compare_two(folder: Path, home: Path, storage: Path) -> subprocess.CompletedProcess[str]:
    variables = {"DAGSTER_HOME": str(home), "LUFFY__STORAGE__ROOT": str(storage), **EXPERIMENTS, **SECRETS}
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.luffy", "experiments", "luffy", "on_policy"],
        cwd=ROOT,
        env=environment(**variables, LUFFY__EXPERIMENTS__RUNS=str(folder / "runs")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_recipes_become_one_page_here_and_elsewhere_and_no_secret_is_anywhere(tmp_path: Path) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    done = compare_two(tmp_path, home, storage)
    (page,) = (storage / "experiments" / "comparison").glob("*/experiments.html")
    text = page.read_text(encoding="utf-8")
    assert "<th>luffy</th>" in text and "<th>on_policy</th>" in text
    assert text.count("<svg ") >= 4 and "paired by problem" in text
    assert len(list((storage / "training" / "policy").glob("*/policy/lineage.json"))) == 2
    assert "5ecret" not in done.stdout + done.stderr
    assert not planted(home, storage)

    elsewhere = tmp_path / "elsewhere"
    done = compare_two(tmp_path, tmp_path / "other", elsewhere)
    assert len(re.findall(r"run \d of 2: recipe \w+, seed 0: made on 20\S+ by \w+\n", done.stdout)) == 2
    assert not (elsewhere / "training").exists()
    (again,) = (elsewhere / "experiments" / "comparison").glob("*/comparison.md")
    assert again.read_bytes() == page.with_name("comparison.md").read_bytes()


def test_nothing_of_the_secrets_is_kept_by_a_run_that_fails(tmp_path: Path) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    variables = {"DAGSTER_HOME": str(home), "LUFFY__STORAGE__ROOT": str(storage), **SECRETS}
    variables["LUFFY__MODEL__SOURCE"] = "no/such/model"
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", "group:models or group:benchmarks"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(**variables), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1 and "no/such/model" in done.stderr
    assert list(storage.rglob("suite.parquet"))
    assert "5ecret" not in done.stdout + done.stderr
    assert not planted(home, storage)
    (home / "note.txt").write_text(SECRETS["HF_TOKEN"])
    assert planted(home, storage) == [str(home / "note.txt")]  # the search does find one
