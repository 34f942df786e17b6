"""A user's reward function, asked about single responses with a time limit."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from training.job import user_reward
from training.job.user_reward import RewardError

SECONDS = 2.0  # time for an answer; a function that once took longer is not asked again
UNKNOWN = 0.5, ""  # neither right nor wrong

Score = Callable[[Mapping[str, Any], str], tuple[float, str]]  # from a row and a response: the score, and why it failed


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call in a thread of its own, for which no exit of the process waits."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return future


@contextmanager
def asked(section: Mapping[str, Any]) -> Iterator[Score]:
    """Yield the function of ``section`` (``reward.custom_reward_function``), called in one event loop as in verl."""
    silent = False
    with _event_loop() as loop:

        def score(row: Mapping[str, Any], response: str) -> tuple[float, str]:
            nonlocal silent
            if silent:
                return UNKNOWN
            sample = {name: row[name] for name in ("data_source", "extra_info")}
            sample |= {"solution_str": response, "ground_truth": row["reward_model"]["ground_truth"]}
            answer = asyncio.run_coroutine_threadsafe(user_reward.compute_score(function=section, **sample), loop)
            try:
                scored = answer.result(SECONDS)
            except TimeoutError:
                silent = answer.cancel()
                return UNKNOWN
            except RewardError as error:
                return 0.0, str(error)
            return float(scored["score"] if isinstance(scored, Mapping) else scored), ""

        yield score


@contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop in a thread of its own, which ends with the block unless a function blocks it."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    loop.set_default_executor(_DaemonThreads())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        if not thread.is_alive():
            runner.close()
