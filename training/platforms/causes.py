"""Why a training failed: the exception that its driver got, and those that other processes logged before it.

verl's agent loop logs what a sample raises and goes on, and vLLM's engine logs what ends it and tells its clients no
more than that it is dead. So every process of a job notes the exceptions that it logs in a file of the attempt.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

CAUSES_FILE = "TRAINING_CAUSES_FILE"  # variable: the file of an attempt


def note_logged_exceptions() -> None:
    """From now on, write each exception that this process logs as an error into the file of the variable, if set."""
    if not (file := os.environ.get(CAUSES_FILE)):
        return
    make = logging.getLogRecordFactory()

    def noting(*arguments: Any, **options: Any) -> logging.LogRecord:
        record = make(*arguments, **options)
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1]:
            with open(file, "a", encoding="utf-8") as causes:
                causes.write(json.dumps(described(record.exc_info[1])) + "\n")
        return record

    logging.setLogRecordFactory(noting)


def described(error: BaseException) -> str:
    """Return the type and the first line of an error; of one of Ray's tasks, of what was raised there.

    Of an actor that died it names the class.
    """
    while isinstance(inner := getattr(error, "cause", None), BaseException):
        error = inner
    first, *below = str(error).strip().splitlines() or [""]
    died = [line.split(":", 1)[1].strip() for line in below if line.strip().startswith("class_name:")]
    return " ".join([f"{type(error).__name__}: {first}", *(f"({name})" for name in died)])


def reason(error: BaseException, logged: Path) -> str:
    """Return why the driver got ``error``: the error, and the first that is in the file ``logged``."""
    told = described(error)
    first = json.loads(logged.read_text(encoding="utf-8").splitlines()[0]) if logged.exists() else ""
    return f"{told}; first {first}" if first and first not in told else told
