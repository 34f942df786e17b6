"""Dagster's web server behind a guard that accepts only its own host names and only its own pages.

The UI has no login, and any web page that you visit can send requests to 127.0.0.1. So a request must name a host that
this server goes by (`Host`, against DNS rebinding), must not come from another site or port (`Origin`), and may use
GraphQL only by POST; no other site can show the UI in a frame. Reports of the storage are served below ``/files``,
because a browser does not follow links from a web page to a local file.
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

import uvicorn
import yaml
from dagster import DagsterInstance, __version__
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.webserver import DagsterWebserver
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assets.shared.storage import FILES, Storage
from core import PROJECT
from core.cli import exit_status
from core.errors import InputError
from core.text.patterns import compile_full_match
from pipelines.definitions.dead_runs import end_dead_runs
from pipelines.settings import load

CODE = "pipelines.definitions.code_location"
LOCATION = "luffy"
HOSTS = "LUFFY_UI_HOSTS"
PAGES = {".html", ".css", ".js", ".svg", ".png", ".json", ".csv", ".md", ".txt", ".woff", ".woff2"}
POLICY = "Content-Security-Policy"
# A page of the storage may run its own scripts, but with an origin of its own: it can neither read nor change the UI.
SANDBOX = {
    POLICY: "sandbox allow-scripts allow-popups allow-downloads",
    "X-Content-Type-Options": "nosniff",
}
ADDRESS = compile_full_match(r"(?i)(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/@]+)(?::\d+)?")  # of a header: HOST or HOST:PORT


class Guard:
    """ASGI middleware that refuses requests by another name or from another site, and GraphQL by GET.

    Args:
        app: The application behind it.
        host: The address that the server listens on; loopback names always count.
        proxies: Host names by which proxies forward requests (``LUFFY_UI_HOSTS``).
    """

    def __init__(self, app: ASGIApp, host: str, proxies: frozenset[str]) -> None:
        self._app = app
        self._proxies = proxies
        self._hosts = proxies | {"127.0.0.1", "localhost", "::1", host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                policies = [headers.get(POLICY, "").rstrip("; "), "frame-ancestors 'self'"]
                headers[POLICY] = "; ".join(filter(None, policies))
            await send(message)

        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send_unframed)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1][:120]})
        else:
            await PlainTextResponse(f"{refusal[1]}\n", status_code=refusal[0])(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if _hostname(host) not in self._hosts:
            return 403, (
                f"Host {host!r} is not a name of this server: open it at http://127.0.0.1:PORT, or add the name that "
                f"your proxy uses to {HOSTS}."
            )
        address = origin.partition("://")[2] if origin is not None else host
        if address.lower() != host.lower() and _hostname(address) not in self._proxies:
            return 403, f"Requests from the site {origin} are refused: add its host to {HOSTS} if it is your proxy."
        if scope["type"] == "http" and scope["path"].rstrip("/").endswith("/graphql") and scope["method"] != "POST":
            return 405, "Send GraphQL by POST."
        if ".." in scope["path"].split("/"):
            return 404, "There is no such page."
        return None


class GuardedWebserver(DagsterWebserver):
    """Dagster's web server with `Guard` around it and the pages of the storage below ``/files``."""

    def __init__(self, context: WorkspaceProcessContext, host: str, storage: Path) -> None:
        super().__init__(context, live_data_poll_rate=2000)
        self._host = host
        self._storage = storage.resolve()

    def build_middleware(self) -> list[Middleware]:
        proxies = frozenset(os.environ.get(HOSTS, "").lower().replace(",", " ").split())
        return [Middleware(Guard, host=self._host, proxies=proxies), *super().build_middleware()]

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
    storage = Storage(root=load().storage.root).path
    with tempfile.TemporaryDirectory(prefix="luffy-ui-") as folder:
        socket = Path(folder) / "code.sock"
        workspace = Path(folder) / "workspace.yaml"
        server = {"socket": str(socket), "host": "localhost", "location_name": LOCATION}
        workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}), encoding="utf-8")
        quiet = ["--log-level", "warning"]
        code = [sys.executable, "-P", "-m", "dagster", "code-server", "start", "--socket", str(socket), "-m", CODE]
        code += ["--working-directory", str(PROJECT), *quiet]
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
        app = GuardedWebserver(context, host, storage).create_asgi_app()
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
    """Return the host of ``HOST:PORT`` in lower case; None if it is no address."""
    parts = ADDRESS(address)
    return parts["host"].strip("[]").lower() if parts else None


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1], int(sys.argv[2]))))
