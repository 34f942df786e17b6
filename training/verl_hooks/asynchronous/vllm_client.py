"""A client of vLLM that carries samples over a weight update, and the balancer that measures how long vLLM is busy."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from training.algorithms.derived_seeds import stable_hash

VERSIONS = "versions"  # entry of a sample's extra fields: the version of the weights for each of its tokens
ABORTED = ("abort", "aborted")


class ResumingClient(LLMServerClient):
    """verl's client, but an interrupted sample continues from its own tokens with the next weights.

    Each token keeps its log-probability and version. verl's own client of that kind keeps no version per token, repeats
    the seed (vLLM then draws the same numbers again), and sleeps a second before it goes on.
    """

    def __init__(self, *args: Any, requests: int, **kwargs: Any):
        """``requests``: how many this client sends at once. Those that vLLM would queue delay an update of weights."""
        super().__init__(*args, **kwargs)
        self.requests = requests
        self._slots: asyncio.Semaphore | None = None  # made in the process and loop that sends

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> TokenOutput:
        if self._slots is None:
            self._slots = asyncio.Semaphore(self.requests)
        limit = sampling_params["max_tokens"]
        tokens: list[int] = []
        log_probs: list[float] = []
        versions: list[int] = []
        async with self._slots:
            while True:
                params = sampling_params | {"max_tokens": limit - len(tokens)}
                if tokens and "seed" in params:
                    params["seed"] = stable_hash(params["seed"], len(tokens))
                part = await super().generate(
                    request_id, prompt_ids=prompt_ids + tokens, sampling_params=params, **kwargs
                )
                version = part.extra_fields["global_steps"]
                tokens += part.token_ids
                log_probs += part.log_probs or []
                versions += [version] * len(part.token_ids)
                if part.stop_reason not in ABORTED or len(tokens) >= limit:
                    break
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probs,
            num_preempted=part.num_preempted,
            stop_reason="completed",
            extra_fields=part.extra_fields
            | {
                VERSIONS: versions,
                "min_global_steps": min(versions, default=version),
                "max_global_steps": max(versions, default=version),
            },
        )


class TimedBalancer(GlobalRequestLoadBalancer):
    """verl's load balancer of vLLM's servers, which also measures how long each of them had requests.

    verl creates it as an actor, because ``router.yaml`` names it.
    """

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
