"""Run the training interpreter's programs (``python -m training``, ``python -m evaluation``) from an asset.

Every program runs under a `core.backends.supervisor`, so that Ray and vLLM end with the step, however the step ends.
The program's events come back through a file; what it prints is in the step's logs in the UI. With another ``backend``
than local, the program submits what needs GPUs as a job of a Ray cluster or of Slurm.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import dagster as dg

from assets.shared.failures import INTERRUPTIONS, ProgramKilled
from core import PROJECT
from core.errors import STOPPED, stopped
from core.existing_python import examine, is_locked
from core.machine.driver import installed_driver, require_driver
from core.machine.jsonl_tail import EVENTS_FILE, FAILED, RecordFile
from core.plugins.user_code import python_path
from core.shared_settings import InterpreterSettings
from core.text.patterns import compile_quick_pattern
from core.text.secrets import redact

POLL_SECONDS = 0.25
RUN_VARIABLE = "LUFFY_DAGSTER_RUN"  # environment variable with the run's id, in every process of a run
TAIL_LINES = 40
BACKTICKS = compile_quick_pattern("`+")
Message = Callable[[dict[str, Any]], None]


class TrainingInterpreter(InterpreterSettings, dg.ConfigurableResource):
    """The Python that has torch, verl and vLLM; a relative path lies below the project."""

    def placement(self, context: dg.AssetExecutionContext) -> dict[str, Any]:
        """Return the fields of `core.backends.Placement`: where a program that needs GPUs runs. Call it just before."""
        address = self.ray_address if self.backend == "ray" else None
        return {"backend": self.backend, "ray_address": address, "slurm": self.slurm if self.backend == "slurm" else {}}

    def examined(self) -> Path:
        """Return `executable`, after a look at the driver, and at packages that came from no lock."""
        path, hardware = self.executable(), self.path().parents[1] / "hardware"
        if self.backend == "local" and hardware.is_file() and hardware.read_text(encoding="utf-8").strip() == "gpu":
            require_driver(installed_driver())
        if not is_locked(path):
            examine(path)
        return path

    def run(
        self,
        context: dg.AssetExecutionContext,
        arguments: Sequence[str],
        on_message: Message,
        kept: Callable[[], str] = lambda: "",
    ) -> None:
        """Run ``python -m <arguments>`` to its end, passing on each message of the program as it comes.

        Raises dg.Failure with the program's own message, and `ProgramKilled` if SIGKILL ended it or its job. If the
        step is interrupted, the program gets TERM, ``grace_seconds`` later KILL; the log says what is ``kept``.
        """
        try:
            self._run(context, arguments, on_message)
        except INTERRUPTIONS:
            raise dg.DagsterExecutionInterruptedError(kept()) from None

    def _run(self, context: dg.AssetExecutionContext, arguments: Sequence[str], on_message: Message) -> None:
        python, parent = str(self.executable()), str(os.getpid())
        command = [python, "-m", "core.backends.supervisor", "--parent", parent, "--", python, "-m", *arguments]
        context.log.debug(" ".join(command))
        with tempfile.TemporaryDirectory() as folder:
            events = RecordFile(Path(folder) / "events.jsonl")
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**self._environment(), EVENTS_FILE: str(events.path), RUN_VARIABLE: context.run_id},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            assert process.stderr is not None
            tail: deque[str] = deque(maxlen=TAIL_LINES)
            pump = threading.Thread(target=_pump, args=(process.stderr, tail), daemon=True)
            pump.start()
            try:
                while process.poll() is None:
                    _pass_on(events, on_message)
                    time.sleep(POLL_SECONDS)
            finally:
                self._stop(process)
                pump.join(timeout=5)
            _pass_on(events, on_message)
        if process.returncode:
            raise _failure(arguments[0], process.returncode, list(tail), python)

    def _environment(self) -> dict[str, str]:
        variables = {"PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **variables, **({"HF_HUB_OFFLINE": "1"} if self.offline else {})}

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """End ``process`` if it is running; it is a supervisor, which ends its descendants too."""
        if process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(self.grace_seconds)
        finally:  # also if a second interruption arrives while we wait
            if process.poll() is None:
                process.kill()
                process.wait()


def _pass_on(events: RecordFile, on_message: Message) -> None:
    for event in events.new_records():
        if event["event"] != FAILED:  # the program's errors come with it, too
            on_message(event)


def _pump(stream: IO[bytes], tail: "deque[str]") -> None:
    """Copy the program's errors to the step's log as they come, without secrets, and keep the last lines."""
    for line in stream:
        text = redact(line.decode(errors="replace"))
        tail.append(text.rstrip())
        sys.stderr.write(text)
    sys.stderr.flush()


def _failure(program: str, status: int, tail: list[str], python: str) -> dg.Failure:
    """Describe why a program failed: its ``error:`` message if it gave one, else its end and its last lines."""
    starts = [number for number, line in enumerate(tail) if line.startswith("error: ")]
    if starts:
        message = "\n".join(tail[starts[-1] :]).removeprefix("error: ")
    elif how := stopped(status):
        message = f"{program} {how}"
    elif tail and tail[-1].startswith("ModuleNotFoundError: "):
        message = f"{python}: {tail[-1].removeprefix('ModuleNotFoundError: ')}: `luffy doctor` says what it lacks"
    else:
        message = "\n".join([f"{program} ended with status {status}:", *tail[-10:]])
    fence = "`" * max(3, *(len(run) + 1 for run in BACKTICKS.findall("".join(tail)) or ["`"]))  # none of them closes it
    metadata = {"last lines": dg.MetadataValue.md("\n".join([fence, *tail, fence])), "exit status": status}
    if f"{STOPPED} SIGKILL" in message:  # the kernel sends KILL; a person or a scheduler sends TERM
        return ProgramKilled(description=message, metadata=metadata)
    return dg.Failure(description=message, metadata=metadata, allow_retries=status != 2)
