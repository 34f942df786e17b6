"""Dagster's web server behind a guard that accepts only its own host names and changes nothing on a GET.

The UI has no login, and any web page that you visit can send requests to 127.0.0.1. So a request must name a host that
this server goes by (`Host`, against DNS rebinding), must not come from another site (`Origin`), and must not carry a
GraphQL mutation in its address. Reports and Data Docs of the storage are served below ``/files``, because a browser
does not follow links from a web page to a local file.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import uvicorn
import yaml
from dagster import DagsterInstance, __version__
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.webserver import DagsterWebserver
from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from assets.shared.storage import FILES, Storage
from core.cli import exit_status
from core.errors import InputError
from pipelines.definitions.orphans import end_dead_runs
from pipelines.definitions.profile_settings import load_settings

CODE = "pipelines.definitions.code_location"
LOCATION = "luffy"
HOSTS = "LUFFY_UI_HOSTS"
PAGES = {".html", ".css", ".js", ".svg", ".png", ".json", ".csv", ".md", ".txt", ".woff", ".woff2"}
# A page of the storage may run its own scripts, but with an origin of its own: it can neither read nor change the UI.
SANDBOX = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups allow-downloads",
    "X-Content-Type-Options": "nosniff",
}


def allowed_hosts(host: str) -> frozenset[str]:
    """Return the host names of the server: loopback, the address it listens on, and those of ``LUFFY_UI_HOSTS``."""
    more = os.environ.get(HOSTS, "").replace(",", " ").split()
    return frozenset({"127.0.0.1", "localhost", "::1", host.lower(), *(name.lower() for name in more)})


class Guard:
    """ASGI middleware that refuses requests by another name, from another site, and mutations by GET."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (reason := self._refusal(scope)):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
                return
            await PlainTextResponse(reason + "\n", status_code=403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if _hostname("//" + headers.get("host", "")) not in self._hosts:
            return (
                f"Host {headers.get('host', '')!r} is not a name of this server: open it at http://127.0.0.1:PORT, or "
                f"add the name that your proxy uses to {HOSTS}."
            )
        origin = headers.get("origin")
        if origin is not None and _hostname(origin) not in self._hosts:
            return f"Requests from the site {origin} are refused: add its host to {HOSTS} if it is a proxy of this UI."
        if scope["type"] == "http" and scope["method"] != "POST" and _mutates(scope["query_string"]):
            return "A GraphQL mutation must be sent by POST."
        return None


class GuardedWebserver(DagsterWebserver):
    """Dagster's web server with `Guard` around it and the pages of the storage below ``/files``."""

    def __init__(self, context: WorkspaceProcessContext, hosts: frozenset[str], storage: Path) -> None:
        super().__init__(context, live_data_poll_rate=2000)
        self._hosts = hosts
        self._storage = storage.resolve()

    def build_middleware(self) -> list[Middleware]:
        return [Middleware(Guard, hosts=self._hosts), *super().build_middleware()]

    def build_routes(self) -> list[BaseRoute]:
        return [Route(FILES + "/{path:path}", self._page), *super().build_routes()]

    async def _page(self, request: Request) -> Response:
        file = (self._storage / request.path_params["path"]).resolve()
        if not file.is_relative_to(self._storage) or file.suffix not in PAGES or not file.is_file():
            return PlainTextResponse("There is no such page in the storage.\n", status_code=404)
        return FileResponse(file, headers=SANDBOX)


def main(host: str, port: int) -> int:
    """Start a code server and the daemon, and serve the UI until one of the three ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    storage = Storage(root=load_settings().storage.root).path
    with tempfile.TemporaryDirectory(prefix="luffy-ui-") as folder:
        socket = Path(folder) / "code.sock"
        workspace = Path(folder) / "workspace.yaml"
        server = {"socket": str(socket), "host": "localhost", "location_name": LOCATION}
        workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}), encoding="utf-8")
        quiet = ["--log-level", "warning"]
        code = [sys.executable, "-m", "dagster", "code-server", "start", "--socket", str(socket), "-m", CODE, *quiet]
        daemon = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-w", str(workspace), *quiet]
        children = {"code server": subprocess.Popen(code)}
        try:
            _wait_for(socket, children["code server"])
            children["daemon"] = subprocess.Popen(daemon)
            return _serve(workspace, host, port, storage, children)
        finally:
            for child in children.values():
                child.terminate()
            for child in children.values():
                child.wait()


def _wait_for(socket: Path, code: subprocess.Popen[bytes]) -> None:
    while not socket.exists():
        if code.poll() is not None:
            raise InputError(f"the code server ended with status {code.returncode}: its messages are above")
        time.sleep(0.1)


def _serve(
    workspace: Path, host: str, port: int, storage: Path, children: Mapping[str, subprocess.Popen[bytes]]
) -> int:
    target = WorkspaceFileTarget([str(workspace)])
    with (
        DagsterInstance.get() as instance,
        WorkspaceProcessContext(instance, workspace_load_target=target, version=__version__) as context,
    ):
        end_dead_runs(instance)  # runs of a UI that was killed
        app = GuardedWebserver(context, allowed_hosts(host), storage).create_asgi_app()
        server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
        threading.Thread(target=_stop_with, args=(server, children), daemon=True).start()
        server.run()
    ended = [f"{name} (status {child.returncode})" for name, child in children.items() if child.poll() is not None]
    if ended:
        raise InputError(
            f"{' and '.join(ended)} ended, and the UI with it: the messages are above; run `luffy ui` again"
        )
    return 0


def _stop_with(server: uvicorn.Server, children: Mapping[str, subprocess.Popen[bytes]]) -> None:
    while all(child.poll() is None for child in children.values()):
        time.sleep(1.0)
    server.should_exit = True


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _mutates(query_string: bytes) -> bool:
    """Return whether an address carries a GraphQL document with anything but queries."""
    for text in parse_qs(query_string.decode("latin-1")).get("query", []):
        try:
            definitions = parse(text).definitions
        except GraphQLError:
            continue
        operations = [node for node in definitions if isinstance(node, OperationDefinitionNode)]
        if any(node.operation is not OperationType.QUERY for node in operations):
            return True
    return False


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1], int(sys.argv[2]))))
