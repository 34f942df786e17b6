"""A user's mistake ends a step with its message, not with a stack trace."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import dagster as dg

from core.errors import InputError
from core.text.secrets import redact


def reports_input_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``function``, the body of an asset or check, fail with the message of an InputError, without retries."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            try:
                yield from function(*args, **kwargs)
            except InputError as error:
                raise as_failure(error) from None

        return generator

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except InputError as error:
            raise as_failure(error) from None

    return plain


def as_failure(error: Exception) -> dg.Failure:
    """The Dagster failure whose description is the message of ``error``; running the step again would not help."""
    return dg.Failure(description=redact(str(error)), allow_retries=False)
