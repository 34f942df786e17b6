"""verl's load balancer of vLLM's servers, which also measures how long each of them had requests."""

import time
from collections.abc import Mapping
from typing import Any

from verl.workers.rollout.router import GlobalRequestLoadBalancer


class TimedBalancer(GlobalRequestLoadBalancer):
    """verl creates it as an actor, because ``router.yaml`` names it."""

    def __init__(self, servers: dict[str, Any], config: Mapping[str, Any]):
        super().__init__(servers)
        self._since: dict[str, float] = {}  # servers with requests: since when
        self._busy = 0.0

    def acquire_server(self, request_id: str) -> tuple[str, Any]:
        server, handle = super().acquire_server(request_id)
        self._since.setdefault(server, time.monotonic())
        return server, handle

    def release_server(self, server_id: str, request_id: str | None = None) -> None:
        super().release_server(server_id, request_id)
        if server_id in self._since and not self._inflight_requests.get(server_id):
            self._busy += time.monotonic() - self._since.pop(server_id)

    def busy_seconds(self) -> float:
        """Return how long a server had requests so far, on average over the servers."""
        now = time.monotonic()
        return (self._busy + sum(now - since for since in self._since.values())) / len(self._servers)
