"""The guard around the Dagster UI, on a real server: by which names it answers, and what it refuses."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_port

ROOT = Path(__file__).resolve().parents[2]
MUTATION = "mutation { setNuxSeen }"


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of `luffy ui` with a storage that holds one report."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "storage" / "report").mkdir(parents=True)
    (folder / "storage" / "report" / "card.html").write_text("<h1>scores</h1>")
    (folder / "storage" / "report" / "model.safetensors").write_text("weights")
    (folder / "secret.html").write_text("outside")
    (folder / "storage" / "link.html").symlink_to(folder / "secret.html")
    port = free_port()
    environment = os.environ | {
        "DAGSTER_HOME": str(folder / "home"),
        "LUFFY__STORAGE__ROOT": str(folder / "storage"),
        "LUFFY_UI_HOSTS": "dagster.example.org",
        "TMPDIR": str(folder),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.luffy", "ui", "--port", str(port)], cwd=ROOT, env=environment
    )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address + "/server_info", timeout=5).close()
            break
        except OSError:
            time.sleep(0.2)
    yield address
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) == 128 + signal.SIGINT
    assert not list(folder.glob("luffy-ui-*")), "the temporary folder of the server is left over"


def request(address: str, *, data: dict[str, str] | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    body = None if data is None else json.dumps(data).encode()
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=30) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:3000", "dagster.example.org"])
def test_it_answers_to_its_own_names(ui: str, host: str) -> None:
    assert request(ui + "/server_info", Host=host)[0] == 200
    status, text, _ = request(ui + "/graphql", data={"query": "{ version }"}, Host=host, Origin=f"https://{host}")
    assert status == 200 and "version" in json.loads(text)["data"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # DNS rebinding
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[nonsense"},
        {"Origin": "http://evil.example"},  # another site's script
        {"Origin": "null"},  # a sandboxed frame, or a page of the storage
        {"Origin": "http://127.0.0.1:1"},  # another server of this machine
    ],
)
def test_another_name_or_site_is_refused_before_dagster_sees_it(ui: str, headers: dict[str, str]) -> None:
    for data in (None, {"query": "{ version }"}):
        status, text, _ = request(ui + "/graphql?query=%7Bversion%7D", data=data, **headers)
        assert status == 403 and "LUFFY_UI_HOSTS" in text


def test_graphql_is_answered_by_post_only(ui: str) -> None:
    for document in (MUTATION, "{ version }"):
        address = ui + "/graphql?query=" + urllib.parse.quote(document)
        assert request(address)[:2] == (405, "Send GraphQL by POST.\n")
    status, text, _ = request(ui + "/graphql", data={"query": MUTATION})
    assert status == 200 and json.loads(text) == {"data": {"setNuxSeen": True}}


@pytest.mark.parametrize("path", ["/", "/files/report/card.html", "/server_info"])
def test_no_other_site_shows_it_in_a_frame(ui: str, path: str) -> None:
    assert "frame-ancestors 'self'" in request(ui + path)[2]["content-security-policy"]


def test_a_path_out_of_the_logs_is_no_page(ui: str) -> None:
    assert request(ui + "/logs/..%2f..%2fsecret.html")[0] == 404


def test_a_websocket_of_another_site_is_closed(ui: str) -> None:
    host, port = urllib.parse.urlsplit(ui).netloc.split(":")
    handshake = (
        "GET /graphql HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: graphql-ws\r\nOrigin: {}\r\n\r\n"
    )
    for origin, status in (("http://evil.example", " 403 "), (ui, " 101 ")):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(handshake.format(f"{host}:{port}", origin).encode())
            assert status in connection.recv(1024).decode().splitlines()[0]


def test_pages_of_the_storage_are_served_with_an_origin_of_their_own(ui: str) -> None:
    status, text, headers = request(ui + "/files/report/card.html")
    assert (status, text) == (200, "<h1>scores</h1>")
    assert "sandbox" in headers["content-security-policy"] and "same-origin" not in headers["content-security-policy"]
    for path in ("link.html", "report/model.safetensors", "report", "nothing.html", "%2e%2e/secret.html"):
        assert request(f"{ui}/files/{path}")[0] == 404, path
