"""SIGTERM while samples are drawn: the process ends as stopped, wherever the signal finds it."""

import os
import signal
from collections.abc import Iterator

import pytest

from evaluation.commands import _sampling_process


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def draw(*, stopped: bool) -> None:
    """A library that replaces an exit in the middle of its work by an error of its own."""
    with _sampling_process():
        try:
            if stopped:
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            raise UnboundLocalError("tokenizer")


def test_an_exit_that_a_library_replaces_is_an_exit() -> None:
    with pytest.raises(SystemExit) as stop:
        draw(stopped=True)
    assert stop.value.code == 128 + signal.SIGTERM


def test_an_error_without_the_signal_is_an_error() -> None:
    with pytest.raises(UnboundLocalError):
        draw(stopped=False)
