"""A small stand-in of the Hugging Face hub's HTTP interface: repositories, commits and files, in memory.

The real hub cannot be reached from where these tests run. huggingface_hub's own client does the talking, so a change
of its side is noticed; a change of the hub's side is not.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_stand_in"


class Hub:
    """Repositories as {kind/owner/name: commits}, a commit being {path: content}; the last one is the newest."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.private: dict[str, bool] = {}
        self.address = ""

    def newest(self, repository: str) -> dict[str, bytes]:
        return self.repositories[repository][-1]

    def environment(self) -> dict[str, str]:
        """What lets huggingface_hub talk to this hub."""
        return {"HF_ENDPOINT": self.address, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}


@contextmanager
def serve_hub() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(urlsplit(self.path).path)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.answer(401, {"error": "Invalid username or password."})
            if path == "/api/repos/create":
                wanted = json.loads(body)
                name = f"{wanted.get('type', 'model')}s/{wanted.get('organization', 'me')}/{wanted['name']}"
                taken = name in hub.repositories
                hub.repositories.setdefault(name, [{}])
                hub.private.setdefault(name, wanted.get("visibility") == "private" or wanted.get("private", False))
                return self.answer(409 if taken else 200, {"url": f"{hub.address}/{name}", "name": name})
            if path == "/api/validate-yaml":
                return self.answer(200, {"errors": [], "warnings": []})
            kind, repository, action = self.parts(path)
            if action == "paths-info":
                commit = hub.newest(f"{kind}/{repository}")
                asked = parse_qs(body.decode())["paths"] if b"paths=" in body else json.loads(body)["paths"]
                return self.answer(200, [self.entry(name, commit) for name in asked if name in commit])
            if action == "preupload":
                files = [
                    {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for f in json.loads(body)["files"]
                ]
                return self.answer(200, {"files": files})
            assert action == "commit", path
            commit = dict(hub.newest(f"{kind}/{repository}"))
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    commit[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
                elif entry["key"] == "deletedFile":
                    del commit[entry["value"]["path"]]
            hub.repositories[f"{kind}/{repository}"].append(commit)
            self.answer(
                200, {"commitUrl": f"{hub.address}/{kind}/{repository}/commit/{sha(commit)}", "commitOid": sha(commit)}
            )

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path == "/api/whoami-v2":
                return self.answer(200, {"name": "me", "type": "user", "orgs": []})
            if "/resolve/" in path:
                return self.send_file(path)
            if path.count("/") < 4:
                return self.answer(404, {"error": f"no {path}"})
            kind, repository, _ = self.parts(path)
            if f"{kind}/{repository}" not in hub.repositories:
                return self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            commit = hub.newest(f"{kind}/{repository}")
            if "/tree/" in path:
                below = path.partition("/tree/")[2].partition("/")[2]
                return self.answer(200, [self.entry(name, commit) for name in commit if name.startswith(below)])
            siblings = [{"rfilename": name} for name in commit]
            self.answer(200, {"id": repository, "sha": sha(commit), "siblings": siblings, "tags": []})

        do_HEAD = do_GET

        def entry(self, name: str, commit: dict[str, bytes]) -> dict[str, Any]:
            return {"type": "file", "path": name, "size": len(commit[name]), "oid": sha(commit[name])}

        def send_file(self, path: str) -> None:
            where, _, rest = path.strip("/").partition("/resolve/")
            commits = hub.repositories[where]
            revision, _, name = rest.partition("/")
            commit = next(c for c in commits if sha(c) == revision or revision == "main")
            if name not in commit:
                return self.answer(404, {"error": f"no {name}"}, {"X-Error-Code": "EntryNotFound"})
            data = commit[name]
            headers = {
                "ETag": f'"{sha(data)}"',
                "X-Repo-Commit": sha(commit),
                "Content-Type": "application/octet-stream",
            }
            self.answer(200, data, headers)

        def parts(self, path: str) -> tuple[str, str, str]:
            """(kind, owner/name, action) of /api/kind/owner/name/action/…"""
            _, kind, owner, name, *rest = path.strip("/").split("/")
            return kind, f"{owner}/{name}", rest[0] if rest else ""

        def answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def sha(content: Any) -> str:
    data = content if isinstance(content, bytes) else repr(sorted(content.items())).encode()
    return hashlib.sha1(data).hexdigest()
