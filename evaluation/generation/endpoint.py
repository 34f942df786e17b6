"""Samples of a model that somebody else serves, through an OpenAI-compatible endpoint (vLLM's server among others).

Nothing proves which weights an endpoint serves: its name and address stand for the model in the lineage.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.errors import InputError
from core.prompts import Messages, PromptRecord
from evaluation.generation.requests import Completion, SampleRequest, Sampling

if TYPE_CHECKING:
    import pyarrow as pa

API_KEY = "OPENAI_API_KEY"
CONCURRENCY = 64  # requests under way at once; the server batches them
RETRIES = 6  # of a request, with growing pauses, when the server is busy or does not answer
TIMEOUT_S = 3600.0  # of one response


@dataclass(frozen=True)
class Endpoint:
    """The model ``name`` at ``url``; a key comes from the variable ``OPENAI_API_KEY``."""

    name: str
    url: str

    @classmethod
    def parse(cls, text: str) -> "Endpoint | None":
        """The endpoint that ``text`` names as MODEL@URL, else None.

        >>> Endpoint.parse("Qwen/Qwen3-8B@http://localhost:8000/v1")
        Endpoint(name='Qwen/Qwen3-8B', url='http://localhost:8000/v1')
        """
        name, separator, url = text.partition("@http")
        if not separator:
            return None
        parts = urlsplit(url := f"http{url}")
        if not name or parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{text}: expected MODEL@URL, such as Qwen/Qwen3-8B@http://localhost:8000/v1")
        if parts.password:
            raise InputError(f"{name}@…: the URL holds a password; give the key in the variable {API_KEY}")
        return cls(name, url)

    @property
    def checkpoint(self) -> str:
        """What names the model on a scorecard."""
        return f"{self.name}@{self.url}"

    def decisive(self) -> dict[str, Any]:
        """What decides a sample besides the sampling, the prompt and the number, as far as it can be known."""
        return {"checkpoint": self.checkpoint, "device": "endpoint"}

    def render(self, conversation: Messages) -> str:
        """The messages as JSON: the endpoint renders them with its own chat template."""
        return json.dumps(list(conversation), ensure_ascii=False)

    def prompt_record(self, suite: "pa.Table") -> PromptRecord:
        """The template is the endpoint's own; an answer may come without thoughts."""
        return PromptRecord("endpoint", thinking=False)

    def draw(self, requests: Sequence[SampleRequest], sampling: Sampling) -> Iterator[tuple[int, Completion]]:
        """(index, completion) in the order in which they finish.

        Raises InputError if the endpoint refuses the key or the model, or cannot be reached.
        """
        import openai

        client = openai.OpenAI(
            base_url=self.url, api_key=os.environ.get(API_KEY) or "none", max_retries=RETRIES, timeout=TIMEOUT_S
        )

        def complete(request: SampleRequest) -> Completion:
            answer = client.chat.completions.create(
                model=self.name,
                messages=json.loads(request.prompt),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=request.seed,
            )
            choice = answer.choices[0]
            thoughts = getattr(choice.message, "reasoning", None) or getattr(choice.message, "reasoning_content", None)
            text = choice.message.content or ""
            if thoughts:  # a server that parses thoughts sends them apart
                text = f"<think>\n{thoughts}\n</think>\n\n{text}" if text else f"<think>\n{thoughts}"
            return Completion(text, answer.usage.completion_tokens if answer.usage else 0, str(choice.finish_reason))

        pool = ThreadPoolExecutor(CONCURRENCY)
        try:
            pending = {pool.submit(complete, request): number for number, request in enumerate(requests)}
            for future in as_completed(pending):
                yield pending[future], future.result()
        except openai.APIStatusError as error:
            hint = f"; set {API_KEY}" if error.status_code in (401, 403) else ""
            raise InputError(
                f"{self.checkpoint}: the endpoint answered {error.status_code}: {error.message}{hint}"
            ) from error
        except openai.APIConnectionError as error:
            raise InputError(
                f"{self.checkpoint}: the endpoint cannot be reached ({error.__cause__ or error})"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)
