"""A user's mistake, and a user's cancellation, end a step with one message instead of a stack trace.

What a failed program of the training interpreter says, `assets.shared.interpreter_process` reads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from core.errors import InputError
from core.text.secrets import redact

# What Dagster raises in a step whose run is cancelled.
INTERRUPTIONS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)
RESTARTS = 3  # the most restarts of a step in one run
RESTART_SECONDS = 10.0  # until a step starts again


class ProgramKilled(dg.Failure):
    """A program of a step was killed, for example by the kernel for its memory; the step starts it again."""


@contextmanager
def user_errors(context: Any) -> Iterator[None]:
    """Turn what ends the body of an asset or check into what Dagster records of it.

    An InputError is a failure without retries. A step starts again if its program was killed, `RESTARTS` times at most.
    A cancellation is logged as one sentence, which says what remains.
    """
    try:
        yield
    except InputError as error:
        raise as_failure(error) from None
    except ProgramKilled as error:
        raise dg.RetryRequested(RESTARTS, RESTART_SECONDS) from error
    except INTERRUPTIONS as error:
        context.log.info(f"cancelled; {str(error) or 'materialize again to run this step anew'}")
        raise


def as_failure(error: Exception) -> dg.Failure:
    """Build the Dagster failure that shows the message of ``error``; running the step again would not help."""
    return dg.Failure(description=redact(str(error)), allow_retries=False)
