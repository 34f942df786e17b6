"""A code server on another host: a network, a host name and a storage of its own, by the kernel's namespaces.

Shared are what docs/operations.md names: the checkout, Postgres, the port of the code server, and the folder of compute
logs. The storage and DAGSTER_HOME of the code server are on a file system that nobody else sees.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dagster_postgres", reason="no dagster-postgres in this interpreter")

from tests.deployment import Deployment, no_postgres, postgres

HOST, OURS, THEIRS = "luffy-code", "10.231.7.1", "10.231.7.2"
PRIVATE = 'hostname "$0" && mount -t tmpfs tmpfs "$1" && mount -t tmpfs tmpfs "$2" && shift 2 && exec "$@"'
PARTS = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")


@pytest.fixture
def network() -> Iterator[None]:
    """A network of two hosts: us, and the namespace `HOST`."""
    if os.getuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    if missing := no_postgres():
        pytest.skip(missing)
    made = subprocess.run(["ip", "netns", "add", HOST], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace: {made.stderr.strip()}")
    try:
        for command in (
            f"ip link add {HOST}0 type veth peer name {HOST}1 netns {HOST}",
            f"ip addr add {OURS}/30 dev {HOST}0",
            f"ip link set {HOST}0 up",
            f"ip -n {HOST} addr add {THEIRS}/30 dev {HOST}1",
            f"ip -n {HOST} link set {HOST}1 up",
            f"ip -n {HOST} link set lo up",
        ):
            subprocess.run(command.split(), check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", HOST], check=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("network")
def test_webserver_and_daemon_need_no_file_of_the_code_server(tmp_path: Path) -> None:
    settings = {"LUFFY__TARGETS__EMBEDDED_ROWS": "300", "LUFFY__BENCHMARKS__LIMIT": "8"}
    with postgres(OURS) as database:
        deployment = Deployment(tmp_path, database, settings, THEIRS)
        deployment.storage.mkdir()
        private = [PRIVATE, HOST, str(deployment.storage), str(deployment.home)]
        deployment.code_prefix = ["ip", "netns", "exec", HOST, "unshare", "--uts", "--mount", "sh", "-c", *private]
        try:
            deployment.start()
            run = deployment.launch(*PARTS)
            deployment.wait(lambda runs: runs.get(run) == "SUCCESS")
            query = """query ($r: ID!) { logsForRun(runId: $r) { ... on EventConnection { events {
                ... on LogsCapturedEvent { fileKey stepKeys } } } } }"""
            events = deployment.ask(query, r=run)["logsForRun"]["events"]
            keys = [[run, "compute_logs", event["fileKey"]] for event in events if event.get("fileKey")]
            query = "query ($k: [String!]!) { capturedLogs(logKey: $k) { stdout stderr } }"
            printed = [deployment.ask(query, k=key)["capturedLogs"] for key in keys]
        finally:
            deployment.stop()
        assert not deployment.processes()
    assert keys and all(logs["stdout"] is not None or logs["stderr"] is not None for logs in printed)
    assert not list(deployment.storage.iterdir())  # all of it was on the other host
