"""Ask an OpenAI-compatible endpoint for the vectors of problems."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import InputError, first_line
from core.model.endpoints import API_KEY, endpoint_key, open_client
from targets.embedding.embedding_settings import EmbeddingSettings

if TYPE_CHECKING:
    import openai

RETRIES = 3  # of a request that the server was too busy for, with growing pauses
PROBE = "What is 1 + 1?"
QUOTED = 200  # characters of an answer in a message


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers.

    Args:
        url: of the endpoint.
        key: for it.
        size: of its vectors.
    """

    settings: EmbeddingSettings
    url: str
    key: str = field(repr=False)
    size: int

    @classmethod
    def reach(cls, settings: EmbeddingSettings, url: str, key: str | None = None) -> "Endpoint":
        """The endpoint after a first question, which says how long its vectors are; InputError if it has no answer."""
        key = key or endpoint_key()
        with Embedder(cls(settings, url, key, 0)) as embedder:
            return cls(settings, url, key, embedder.vectors([PROBE]).shape[1])


class Embedder:
    """Makes vectors. Use it as a context manager: it holds connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._settings = endpoint.settings

    @cached_property
    def _client(self) -> "openai.OpenAI":
        return open_client(
            self._endpoint.url,
            self._endpoint.key,
            max_retries=RETRIES,
            timeout=self._settings.timeout_s,
        )

    def __enter__(self) -> "Embedder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            self._client.close()

    def vectors(self, problems: Sequence[str]) -> np.ndarray:
        """The vectors of ``problems``, of length 1; shape (problems, size), float16.

        Raises:
            InputError: the endpoint cannot be reached, refuses a request, does not answer in time, or answers something
                other than a vector of numbers, as long as its first, for each problem.
        """
        texts = [self._settings.prefix + problem[: self._settings.max_characters] for problem in problems]
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        size = self._settings.batch
        parts = [self._request(texts[start : start + size]) for start in range(0, len(texts), size)]
        return np.concatenate(parts) if parts else np.empty((0, self._endpoint.size), np.float16)

    def _request(self, texts: list[str]) -> np.ndarray:
        import openai

        try:
            create: Any = self._client.embeddings.with_raw_response.create
            body = create(model=self._settings.model, input=texts, encoding_format="float").http_response.text
        except openai.OpenAIError as error:
            raise self._error(self._explained(error)) from error
        rows = self._read(body, len(texts))
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(rows).all() or not lengths.all():
            raise self._error("it answered a vector of zeros, or one that is not finite; use another model")
        return (rows / lengths).astype(np.float16)

    def _read(self, body: str, count: int) -> np.ndarray:
        """The vectors in the body of a response, in the order of the request."""
        try:
            data = sorted(json.loads(body)["data"], key=lambda entry: entry["index"])
            rows = [np.asarray(entry["embedding"], np.float64) for entry in data]
        except (ValueError, KeyError, TypeError):
            raise self._error(f"it answered {body[:QUOTED]!r}; expected the form of /v1/embeddings") from None
        if len(rows) != count:
            raise self._error(f"it answered {len(rows)} vectors to {count} problems")
        size = self._endpoint.size or rows[0].size
        if bad := [row.shape for row in rows if row.shape != (size,) or not size]:
            raise self._error(
                f"it answered a vector of {' x '.join(map(str, bad[0]))} numbers, and one of {size} before: it serves "
                "another model, or several under one name"
            )
        return np.stack(rows)

    def _explained(self, error: Exception) -> str:
        import openai

        if isinstance(error, openai.APITimeoutError):
            return f"no answer within {self._settings.timeout_s:g} s; set embedding.timeout_s higher or batch lower"
        if isinstance(error, openai.APIConnectionError):
            return f"it cannot be reached ({error.__cause__ or error}); start the server, or correct embedding.url"
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            return f"it refuses the key ({error.status_code}); set {API_KEY}"
        if isinstance(error, openai.NotFoundError):
            return (
                f"it answered 404 ({first_line(error)}); expected a model that it serves, at an address ending in /v1"
            )
        if isinstance(error, openai.BadRequestError):
            return (
                f"it answered 400 ({first_line(error)}); if a problem is too long for the model, set "
                "embedding.max_characters lower"
            )
        return f"it failed after {RETRIES} retries: {first_line(error)}"

    def _error(self, what: str) -> InputError:
        return InputError(f"embedding: {self._settings.name}: {what}")
