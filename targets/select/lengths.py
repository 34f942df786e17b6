"""Limit the lengths of targets. Their tokens are cached, so that no trace is filtered again for another limit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from targets.config import PrepareConfig
from targets.trace import Rejection, Trace

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def apply_lengths(trace: Trace, config: PrepareConfig) -> None:
    """Reject an accepted ``trace`` for each limit that it exceeds."""
    for rejection in () if trace.reasons else list(_rejections(trace, config)):
        trace.reject(rejection)


def over_lengths(keys: "pa.Table", config: PrepareConfig) -> "np.ndarray":
    """Whether `apply_lengths` rejects each of the accepted traces with these columns of `core.schemas.DECISION`."""
    over = keys["prompt_tokens"].to_numpy() > config.max_prompt_tokens
    over |= keys["target_tokens"].to_numpy() > config.max_target_tokens
    return over | ~keys["has_log_probs"].to_numpy() if config.require_log_probs else over


def _rejections(trace: Trace, config: PrepareConfig) -> Iterator[Rejection]:
    if over := _over(trace.prompt_tokens, config.max_prompt_tokens):
        yield Rejection("prompt_too_long", over)
    if over := _over(trace.target_tokens, config.max_target_tokens):
        yield Rejection("target_too_long", over)
    if config.require_log_probs and not trace.has_log_probs:
        detail = "the source has none, or they are of other tokens than those that the policy is trained on"
        yield Rejection("no_log_probs", detail)


def _over(tokens: int | None, limit: int) -> str | None:
    return f"{tokens} tokens (limit {limit})" if tokens is not None and tokens > limit else None
