"""Samples of a model that somebody else serves, through an OpenAI-compatible endpoint (vLLM's server among others).

Nothing proves which weights an endpoint serves: its name and address stand for the model in the lineage.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.errors import InputError, first_line
from core.model.prompts import Messages, PromptRecord
from evaluation.generation.requests import Completion, SampleRequest, Sampling
from evaluation.generation.token_budget import Budget

if TYPE_CHECKING:
    import openai
    import pyarrow as pa

API_KEY = "OPENAI_API_KEY"
CONCURRENCY = 64  # requests under way at once; the server batches them
RETRIES = 6  # of a request, with growing pauses, when the server is busy or does not answer
TIMEOUT_S = 3600.0  # of one response
REACH_S = 10.0  # of the question whether an endpoint answers at all


@dataclass(frozen=True)
class Endpoint:
    """The model ``name`` at ``url``; a key comes from the variable ``OPENAI_API_KEY``."""

    name: str
    url: str
    concurrency: int = field(default=CONCURRENCY, repr=False)  # requests under way at once

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

    def draw(
        self, requests: Sequence[SampleRequest], sampling: Sampling, budget: Budget | None = None
    ) -> Iterator[tuple[int, Completion]]:
        """(index, completion) in the order in which they finish; fewer than requested where ``budget`` ends.

        After an error no request starts, and what is under way is still given: it may have cost money. Raises
        InputError if the endpoint refuses the key or the model, cannot be reached, or answers nothing usable.
        """
        import openai

        client = openai.OpenAI(
            base_url=self.url, api_key=os.environ.get(API_KEY) or "none", max_retries=RETRIES, timeout=TIMEOUT_S
        )
        self._reach(client)
        budget = budget or Budget()
        remaining = iter(enumerate(requests))
        upcoming = next(remaining, None)
        pending: dict[Future[tuple[Completion, tuple[int, int]]], tuple[int, tuple[int, int]]] = {}
        failure: Exception | None = None
        with ThreadPoolExecutor(self.concurrency) as pool:
            while True:
                while upcoming and failure is None and len(pending) < self.concurrency:
                    number, request = upcoming
                    most = len(request.prompt.encode()), sampling.max_tokens  # tokens never exceed bytes
                    if not budget.reserve_tokens(*most):
                        break
                    pending[pool.submit(self._complete, client, request, sampling)] = number, most
                    upcoming = next(remaining, None)
                if not pending:
                    break
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    number, most = pending.pop(future)
                    try:
                        completion, spent = future.result()
                    except (openai.OpenAIError, InputError) as error:
                        failure = failure or error
                        budget.record_usage(most, (0, 0))
                    else:
                        budget.record_usage(most, spent if any(spent) else most)
                        yield number, completion
        if failure is not None:
            raise self._explained(failure) from failure

    def _reach(self, client: "openai.OpenAI") -> None:
        """Raise an InputError if nothing listens at the address, before every request retries it."""
        import openai

        try:
            client.with_options(max_retries=0, timeout=REACH_S).models.with_raw_response.list()
        except (openai.APITimeoutError, openai.APIStatusError):
            return  # it is busy, or does not list its models
        except openai.APIConnectionError as error:
            raise self._explained(error) from error

    def _complete(
        self, client: "openai.OpenAI", request: SampleRequest, sampling: Sampling
    ) -> tuple[Completion, tuple[int, int]]:
        """The answer to one request, and the tokens of the prompt and of the answer (0 if it does not say)."""
        answer = client.chat.completions.create(
            model=self.name,
            messages=json.loads(request.prompt),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=request.seed,
        )
        if not getattr(answer, "choices", None):
            raise InputError(
                f"{self.checkpoint}: the endpoint answered without a choice: is it an OpenAI-compatible one?"
            )
        choice = answer.choices[0]
        thoughts = getattr(choice.message, "reasoning", None) or getattr(choice.message, "reasoning_content", None)
        text = choice.message.content or ""
        if thoughts:  # a server that parses thoughts sends them apart
            text = f"<think>\n{thoughts}\n</think>\n\n{text}" if text else f"<think>\n{thoughts}"
        usage = answer.usage
        spent = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
        return Completion(text, spent[1], str(choice.finish_reason)), spent

    def _explained(self, error: Any) -> InputError:
        """The InputError that says what the endpoint did."""
        import openai

        if isinstance(error, openai.APIStatusError):
            hint = f"; set {API_KEY}" if error.status_code in (401, 403) else ""
            return InputError(f"{self.checkpoint}: the endpoint answered {error.status_code}: {error.message}{hint}")
        if isinstance(error, openai.APIConnectionError):
            return InputError(f"{self.checkpoint}: the endpoint cannot be reached ({error.__cause__ or error})")
        return error if isinstance(error, InputError) else InputError(f"{self.checkpoint}: {first_line(error)}")
