"""A user's mistake, and a user's cancellation, end a step with one message instead of a stack trace.

What a failed program of the training interpreter says, `assets.shared.interpreter_process` reads.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterUserCodeProcessError
from dagster_shared.error import SerializableErrorInfo

from core.errors import InputError
from core.text.secrets import redact

# What Dagster raises in a step whose run is cancelled.
INTERRUPTIONS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)
CANCELLED = "cancelled; "
RESTARTS = 3  # the most restarts of a step in one run
RESTART_SECONDS = 10.0  # until a step starts again


class ProgramKilled(dg.Failure):
    """A program of a step was killed, for example by the kernel for its memory; the step starts it again."""


class Cancellation(dg.DagsterExecutionInterruptedError, DagsterUserCodeProcessError):
    """The interruption of a step or run that a user cancelled; Dagster records its sentence, without a stack."""

    def __init__(self, sentence: str) -> None:
        # The executor of steps knows an interruption by the name of its class.
        recorded = SerializableErrorInfo(sentence, [], dg.DagsterExecutionInterruptedError.__name__)
        super().__init__(sentence, user_code_process_error_infos=[recorded])


def reports_input_errors(function: Callable[..., Any], parameters: Mapping[str, str]) -> Callable[..., Any]:
    """Let ``function``, the body of an asset or check, fail with the message of an InputError, without retries.

    A cancellation is one sentence, which says what is kept. A step whose program was killed starts again, `RESTARTS`
    times at most.

    Args:
        function: The function of the asset.
        parameters: Its parameters, by the names under which Dagster passes their arguments.
    """

    def named(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {parameters.get(name, name): value for name, value in arguments.items()}

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            with _reported():
                yield from function(*args, **named(kwargs))

        return generator

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with _reported():
            return function(*args, **named(kwargs))

    return plain


@contextmanager
def _reported() -> Iterator[None]:
    """Turn what ends a step into what Dagster records of it."""
    try:
        yield
    except InputError as error:
        raise as_failure(error) from None
    except ProgramKilled as error:
        raise dg.RetryRequested(RESTARTS, RESTART_SECONDS) from error
    except INTERRUPTIONS as error:
        raise cancellation(str(error)) from None


def cancellation(text: str = "") -> Cancellation:
    """Build the interruption of a step that a user cancelled.

    Args:
        text: What is kept, or the text of such an interruption. The default is the text of a step that keeps nothing.
    """
    text = text.removeprefix(CANCELLED) or "materialize again to run this step anew"
    return Cancellation(CANCELLED + text)


def as_failure(error: Exception) -> dg.Failure:
    """Build the Dagster failure that shows the message of ``error``; running the step again would not help."""
    return dg.Failure(description=redact(str(error)), allow_retries=False)
