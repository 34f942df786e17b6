"""One attempt at a training: verl's driver in this process, and a thread that follows the steps that it records.

The output of the driver and of its workers goes into the attempt's log. What fails is an exception of this process.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from core import PROJECT
from core.backends.attempts import Attempt
from core.backends.task import base_environment
from core.errors import TaskFailed
from core.machine.jsonl_tail import RecordFile
from core.machine.processes import adopt_orphans, stop_descendants
from training.job.events import standard_output
from training.platforms.causes import CAUSES_FILE, reason
from training.platforms.preloaded import INTERPRETER, RUNTIME, preloaded_interpreter, recorded

POLL_SECONDS = 0.5
END_SECONDS = 30.0  # for a driver to end when it is asked to
AFTER_THE_END = 1.0  # seconds for the helpers of a driver that has ended
# What describes a cluster that is started; Ray rejects it when it joins a running one.
NEW_CLUSTER = ("num_cpus", "num_gpus", "include_dashboard", "object_store_memory")
OnRecord = Callable[[dict[str, Any]], None]


def run_attempt(
    attempt: Attempt,
    config: DictConfig,
    environment: Mapping[str, str],
    *,
    stall_seconds: float,
    on_record: OnRecord,
    code: Mapping[str, Any] | None = None,
) -> None:
    """Train as ``config`` says to the end, and pass each record of verl's to ``on_record``.

    Args:
        attempt: where the log, the records and the end are written.
        config: verl's resolved configuration.
        environment: variables of every process of the job.
        stall_seconds: the longest time without a record.
        on_record: called in a thread.
        code: the code that runs, for the record of the attempt.

    Raises:
        TaskFailed: the training failed or stalled; the message has the cause.
    """
    logged = attempt.log.with_suffix(".causes")
    files = {"VERL_FILE_LOGGER_PATH": str(attempt.records), CAUSES_FILE: str(logged)}
    environment = {**base_environment(), **files, **environment}
    status = None
    told = "the training command was stopped"
    attempt.begin(code)
    adopt_orphans()
    try:
        with (
            _as_job(environment),
            _output_in(attempt.log),
            _followed(attempt, logged, stall_seconds, on_record) as abort,
        ):
            drive(config, environment, abort)
        status, told = 0, ""
    except Exception as error:
        status = 1
        told = str(error) if isinstance(error, TaskFailed) else f"training failed: {reason(error, logged)}"
        raise TaskFailed(f"{told}\nthe whole log: {attempt.log}") from None
    finally:
        attempt.end(status, told)
        stop_descendants(AFTER_THE_END)


@contextmanager
def _as_job(variables: Mapping[str, str]) -> Iterator[None]:
    """Give this process and those that it starts the folder and the environment of a job, for the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        with chdir(PROJECT):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _output_in(log: Path) -> Iterator[None]:
    """Write what this process and those that it starts print, and an error of the block, into ``log``."""
    streams = (sys.stdout, sys.stderr)
    saved = [os.dup(stream.fileno()) for stream in streams]
    standard_output()  # it is what it is now
    with log.open("wb") as file:
        for stream in streams:
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    try:
        yield
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        for stream, descriptor in zip(streams, saved, strict=True):
            stream.flush()
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)


@contextmanager
def _followed(
    attempt: Attempt, logged: Path, stall_seconds: float, on_record: OnRecord
) -> Iterator[Callable[[BaseException], None]]:
    """Follow the records in a thread; yields what ends the block with an error from another thread.

    The block ends so, too, if there is no record for ``stall_seconds``, or if ``on_record`` fails.
    """
    ended = threading.Event()
    errors = list[BaseException]()

    def abort(error: BaseException) -> None:
        errors.append(error)
        if ended.is_set():
            return
        os.kill(os.getpid(), signal.SIGTERM)
        if not ended.wait(END_SECONDS):  # it is in the middle of something that no signal ends
            attempt.end(None, str(error))
            standard_output().write(f"error: {error}\n")
            standard_output().flush()
            os._exit(1)

    def follow() -> None:
        records = RecordFile(attempt.records)
        moved = time.monotonic()
        while True:
            last = ended.is_set()
            for record in records.new_records():
                moved = time.monotonic()
                logged.unlink(missing_ok=True)  # what was logged before a step that was done did no harm
                on_record(record)
            if last:
                return
            if time.monotonic() - moved > stall_seconds:
                raise TaskFailed(
                    f"training made no step for {stall_seconds:g} s (run.stall_seconds); its last lines:\n"
                    f"{attempt.last_lines()}"
                )
            ended.wait(POLL_SECONDS)

    def guarded() -> None:
        try:
            follow()
        except Exception as error:
            abort(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    try:
        yield abort
    except BaseException:
        if errors:
            raise errors[0] from None
        raise
    finally:
        ended.set()
        thread.join()
    if errors:  # of the last records
        raise errors[0]


def drive(config: DictConfig, environment: Mapping[str, str], abort: Callable[[BaseException], None]) -> None:
    """Run ``config`` to its end, in a new Ray cluster or the one of ``RAY_ADDRESS``."""
    with ExitStack() as stack:
        with open_dict(config):
            if "RAY_ADDRESS" in os.environ:
                for name in NEW_CLUSTER:
                    config.ray_kwargs.ray_init.pop(name, None)
                OmegaConf.update(config, f"{RUNTIME}.env_vars", dict(environment), force_add=True)
            elif "TRAINING_PRELOADS_WORKERS" in os.environ:
                OmegaConf.update(config, INTERPRETER, stack.enter_context(preloaded_interpreter(abort)), force_add=True)
        # Imported here: it takes seconds, in which the preloaded interpreter imports too.
        import ray
        from verl.trainer.main_ppo import run_ppo
        from verl.trainer.ppo.utils import need_critic, need_reference_policy
        from verl.utils.config import validate_config

        reference = need_reference_policy(config)
        critic = need_critic(config)
        validate_config(config=config, use_reference_policy=reference, use_critic=critic)
        stack.callback(ray.shutdown)
        runner = task_runner(config.objective)
        on_term = signal.getsignal(signal.SIGTERM)

        def remote() -> Any:
            signal.signal(signal.SIGTERM, on_term)  # Ray has replaced it by one that ends the process at once
            return runner.remote()

        run_ppo(config, task_runner_class=SimpleNamespace(remote=remote, options=runner.options))


def task_runner(objective: str) -> Any:
    """Return the class of Ray's actor in which the loop of a training runs."""
    if objective == "sft":
        from training.verl_hooks.supervised import SupervisedRunner

        return SupervisedRunner
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1

    base: Any = TaskRunnerV1

    @ray.remote
    class TaskRunner(base.__ray_metadata__.modified_class):
        """verl's task runner in a process that registers this project's trainers."""

        def run(self, config: DictConfig) -> None:
            import training.verl_hooks.asynchronous.trainers  # noqa: F401  registers the trainers "mixed_MODE"

            super().run(recorded(config))

    return TaskRunner
