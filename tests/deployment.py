"""Postgres, code server, webserver and daemon of ``deploy/compose.yaml`` by hand, to kill them and start them again."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from processes import clean_environment, free_port

from assets.shared.interpreter_process import RUN_VARIABLE
from core import PROJECT

POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
PASSWORD = "planted-5ecret-postgres"  # the tests search what is written for it
LOOPBACK = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 40.0
RUN_SECONDS = 400.0


def under_host_name(name: str) -> list[str]:
    """Return what to put before a command so that it runs under another host name; needs root."""
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, address: str = LOOPBACK) -> None:
    """Wait until ``process`` listens on ``port``; AssertionError with the end of its ``log`` if it ends before."""
    end = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        assert process.poll() is None, f"it ended before it listened: {log.read_text()[-2000:]}"
        assert time.monotonic() < end, f"nothing listens on {port} after {START_SECONDS} s"
        time.sleep(0.2)


class Postgres:
    """A server in ``folder``, which runs as ``as_user``: as the user postgres where we are root."""

    def __init__(self, folder: Path, address: str = LOOPBACK) -> None:
        self.folder = folder
        self.address = address
        self.port = free_port()
        self._as_user: list[str] = []
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
            self._as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        password = folder / "password"
        password.write_text(PASSWORD)
        if self._as_user:
            shutil.chown(password, "postgres", "postgres")
        options = ["-D", str(folder / "data"), "-U", "luffy", "-A", "scram-sha-256", "--pwfile", str(password)]
        command = [*self._as_user, str(POSTGRES[-1] / "initdb"), *options]
        subprocess.run(command, check=True, capture_output=True, cwd="/tmp")
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {address}/24 scram-sha-256\n")
        self.start()

    def start(self) -> None:
        addresses = ",".join({LOOPBACK, self.address})
        options = ["-c", f"listen_addresses={addresses}", "-c", f"port={self.port}", "-c", "unix_socket_directories="]
        command = [*self._as_user, str(POSTGRES[-1] / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/tmp", start_new_session=True)
        wait_for_port(self.port, self.server, self.folder / "log")

    def stop(self) -> None:
        """As an administrator does it who restarts the server: open connections are cut."""
        self.server.send_signal(signal.SIGINT)
        self.server.wait(30)

    def configuration(self) -> str:
        """Return the instance of ``deploy/`` on this server."""
        return (PROJECT / "deploy/dagster-postgres.yaml").read_text().replace("port: 5432", f"port: {self.port}")

    @property
    def variables(self) -> dict[str, str]:
        """What `configuration` reads."""
        return {
            "LUFFY_POSTGRES_HOST": self.address,
            "LUFFY_POSTGRES_USER": "luffy",
            "LUFFY_POSTGRES_DB": "postgres",
            "LUFFY_COMPUTE_LOGS": str(self.folder / "logs"),
            "LUFFY_POSTGRES_PASSWORD": PASSWORD,
        }


def no_postgres() -> str | None:
    """Return why there can be no `Postgres` here."""
    if not POSTGRES:
        return "no Postgres binaries in /usr/lib/postgresql: apt-get install postgresql"
    if os.getuid() == 0 and not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
        return "no user postgres, and Postgres does not run as root"
    return None


@contextmanager
def postgres(address: str = LOOPBACK) -> Iterator[Postgres]:
    """Yield a server in a folder of its own, which also listens on ``address``; it is gone at the end of the block."""
    # Its user cannot look into the folders of others.
    folder = Path(tempfile.mkdtemp(prefix="luffy-postgres-"))
    server = Postgres(folder, address)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


class Deployment:
    """Code server, webserver and daemon, each a process that can be killed and started again.

    Args:
        folder: of all their files.
        database: of Dagster.
        variables: of the environment of all three.
        code_address: The address on which the code server listens.
    """

    def __init__(
        self, folder: Path, database: Postgres, variables: Mapping[str, str], code_address: str = LOOPBACK
    ) -> None:
        self.folder = folder
        self.storage = folder / "storage"
        self.ports = {"code": free_port(), "webserver": free_port()}
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "dagster.yaml").write_text(database.configuration())
        workspace = (PROJECT / "deploy/workspace.yaml").read_text()
        workspace = workspace.replace("host: code", f"host: {code_address}").replace("4000", str(self.ports["code"]))
        (folder / "workspace.yaml").write_text(workspace)
        ours = {"DAGSTER_HOME": str(self.home), "LUFFY__STORAGE__ROOT": str(self.storage), "PYTHONPATH": str(PROJECT)}
        self.environment = {**clean_environment(), **ours, **database.variables, **variables}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.code_address = code_address
        self.code_prefix: list[str] = []  # what puts the code server on another host

    def start(self, *names: str) -> None:
        """Start these processes; without names, all of them. Those with a port listen when this returns."""
        for name in names or ("code", "webserver", "daemon"):
            self._start(name)

    def _start(self, name: str) -> None:
        programs = Path(sys.executable).parent
        where = ["-w", str(self.folder / "workspace.yaml")]
        command = {
            "code": ["dagster", "code-server", "start", "-h", self.code_address, "-p", str(self.ports["code"])],
            "webserver": ["dagster-webserver", "-h", "127.0.0.1", "-p", str(self.ports["webserver"]), *where],
            "daemon": ["dagster-daemon", "run", *where],
        }[name]
        command[0] = str(programs / command[0])
        if name == "code":
            command += ["-m", "pipelines.definitions.code_location"]
            command = [*self.code_prefix, *command]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if name in self.ports:
            address = self.code_address if name == "code" else LOOPBACK
            wait_for_port(self.ports[name], self.running[name], self.folder / f"{name}.log", address)

    def kill(self, *names: str) -> None:
        """As a power cut does it."""
        for name in names:
            process = self.running.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """End the processes, and those of their runs."""
        started = [psutil.Process(process.pid) for process in self.running.values() if process.poll() is None]
        for process in started:
            process.terminate()
        psutil.wait_procs(started, STOP_SECONDS)
        left = self.processes()
        for process in left:
            process.kill()
        psutil.wait_procs(left, STOP_SECONDS)

    def processes(self) -> list[psutil.Process]:
        """Return every process of this deployment: they inherit its DAGSTER_HOME."""
        found = psutil.process_iter(["environ", "status"])
        return [
            process
            for process in found
            if (process.info["environ"] or {}).get("DAGSTER_HOME") == str(self.home)
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the reply of the webserver's GraphQL."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['webserver']}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = json.load(reply)
        assert "errors" not in answer, answer
        return answer["data"]

    def launch(self, *assets: str, **settings: Any) -> str:
        """Launch a run of ``assets`` with these fields of the resource ``luffy``; its id."""
        query = """mutation ($p: ExecutionParams!) { launchRun(executionParams: $p) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
        selector = {
            "repositoryLocationName": "luffy",
            "repositoryName": "__repository__",
            "jobName": "everything",
            "assetSelection": [{"path": asset.split("/")} for asset in assets],
            "assetCheckSelection": None,  # all
        }
        config = {"resources": {"luffy": {"config": settings}}}
        answer = self.ask(query, p={"selector": selector, "mode": "default", "runConfigData": config})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def terminate(self, run: str) -> None:
        """As *Terminate* does it."""
        query = "mutation ($r: String!) { terminateRun(runId: $r) { __typename ... on PythonError { message } } }"
        answer = self.ask(query, r=run)["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def runs(self) -> dict[str, str]:
        """Return the status of each run, the newest first."""
        answer = self.ask("{ runsOrError { ... on Runs { results { runId status } } } }")
        return {run["runId"]: run["status"] for run in answer["runsOrError"]["results"]}

    def wait(self, until: Callable[[dict[str, str]], bool], fails: Collection[str] = ()) -> dict[str, str]:
        """Return the runs as soon as ``until`` accepts them; AssertionError if one fails that is not in ``fails``."""
        end = time.monotonic() + RUN_SECONDS
        while not until(runs := self.runs()):
            assert time.monotonic() < end, runs
            assert not {runs[run] for run in runs.keys() - set(fails)} & {"FAILURE", "CANCELED"}, runs
            time.sleep(0.5)
        return runs


def marked(run: str) -> list[psutil.Process]:
    """Return the processes of the programs that the steps of ``run`` have started: they carry its id."""
    alive = psutil.process_iter(["environ", "status"])
    return [
        process
        for process in alive
        if process.info["status"] != psutil.STATUS_ZOMBIE and (process.info["environ"] or {}).get(RUN_VARIABLE) == run
    ]
