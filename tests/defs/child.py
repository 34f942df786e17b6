"""Programs that a step runs and follows in the tests: ``python -m tests.defs.child NAME``."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from core.cli import exit_status
from core.machine.jsonl_tail import EVENTS_FILE, send_event


def steps(total: str) -> None:
    """Report so many training steps."""
    for step in range(1, int(total) + 1):
        metrics = {
            "reward/on_policy": step / int(total),
            "actor/loss": 0.5,
            "actor/note": "text",
            "actor/bad": float("nan"),
        }
        message = f"step {step} of {total}, time left 1:01"
        send_event({"event": "step", "step": step, "total": int(total), "metrics": metrics, "message": message})
    send_event({"event": "done", "policy": "/policy", "reused": False, "message": "wrote /policy"})


def mistake() -> None:
    """End as a program does that was given a wrong input."""
    sys.stderr.write("a warning\nerror: targets t.parquet: no such file\n")
    sys.exit(2)


def crash() -> None:
    """End with a stack trace."""
    raise RuntimeError("the engine broke")


def die_twice(file: str) -> None:
    """Note a start, and be killed at the first two of them."""
    with Path(file).open("a+", encoding="utf-8") as starts:
        starts.write("started\n")
        starts.seek(0)
        count = len(starts.readlines())
    if count < 3:
        os.kill(os.getpid(), signal.SIGKILL)


def lacking() -> None:
    """End because the interpreter lacks a package."""
    import_module("nowhere")


def hang(file: str) -> None:
    """Write our process id and that of a grandchild in a session of its own, which ignores TERM, then wait."""
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)
    temporary = Path(file).with_suffix(".tmp")
    temporary.write_text(f"{os.getpid()} {child.pid}")
    temporary.rename(file)
    time.sleep(600)


def hang_in_event(file: str) -> None:
    """Hang as a program does that is killed while it writes an event."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Path(os.environ[EVENTS_FILE]).open("w", encoding="utf-8") as events:
        events.write('{"event": "st')
        events.flush()
        hang(file)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: globals()[sys.argv[1]](*sys.argv[2:])))
