"""One question to an OpenAI-compatible endpoint: asked again only where the server says that it did no work."""

import json
import random
import time
from typing import Any

from core.errors import InputError, first_line
from core.model.endpoints import API_KEY, open_client
from grading.judging.paid_replies import PaidForNothing

RETRIES = 5
PAUSE_S = 1.0  # before the first retry, then twice as long each time
REACH_S = 10.0


class NoReply(Exception):
    """The endpoint did not answer; nothing was paid."""


class JudgeClient:
    """The model ``model`` at ``url``. Raises InputError if nothing listens there, or the key is refused."""

    def __init__(self, model: str, url: str, limit_s: float) -> None:
        import openai

        self._model = model
        self._client = open_client(url, max_retries=0, timeout=limit_s)
        try:
            self._client.with_options(timeout=REACH_S).models.with_raw_response.list()
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise InputError(f"verifier judge: {url} refuses the key ({error.status_code}); set {API_KEY}") from None
        except (openai.APITimeoutError, openai.APIStatusError):
            pass  # it is busy, or does not list its models
        except openai.APIConnectionError as error:
            raise InputError(f"verifier judge: {url} cannot be reached ({error.__cause__ or error})") from None

    def ask(self, messages: list[dict[str, str]], **sampling: Any) -> tuple[str, int]:
        """Return the body of the response and the tokens that it took (0 where it does not say).

        Raises:
            NoReply: the endpoint refused the request, or stayed busy or unreachable.
            PaidForNothing: it took the request and did not answer in time.
        """
        import openai

        problem: Exception = TimeoutError()
        for attempt in range(RETRIES + 1):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
            try:
                create: Any = self._client.chat.completions.with_raw_response.create
                body = create(model=self._model, messages=messages, **sampling).http_response.text
                if (tokens := tokens_of(body)) is None:
                    raise NoReply(f"a response of no known form: {body[:80]!r}")
                return body, tokens
            except openai.APITimeoutError:
                raise PaidForNothing("the endpoint did not answer in time") from None
            except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
                problem = error
            except openai.OpenAIError as error:
                raise NoReply(f"the endpoint answered: {first_line(error)}") from None
        raise NoReply(f"no answer after {RETRIES} retries: {first_line(problem)}")

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def tokens_of(body: str) -> int | None:
    """Return the tokens that a response says it took, 0 where it does not say; None for an error or a page, which some
    servers send with status 200. Half a response is neither.

    >>> [tokens_of(body) for body in ('{"error": "overloaded"}', "<html>", '{"choices": [{"mess')]
    [None, None, 0]
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return 0 if body.lstrip().startswith("{") else None
    if not isinstance(value, dict) or not value.get("choices"):
        return None
    usage = value.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) else 0
