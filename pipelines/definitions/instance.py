"""DAGSTER_HOME, the folder of the Dagster instance, and the tags by which a run is found again."""

import json
import os
import signal
import socket
from pathlib import Path

from core import PROJECT
from core.errors import InputError
from core.files import atomic_write
from core.machine.processes import start_ticks

CONFIG = "dagster.yaml"
CANCEL = signal.SIGUSR1  # asks `pipelines.cli.execute` to cancel its run
OWNER = "luffy/process"  # tag of a run: the process that executes it


def prepare_home() -> Path:
    """Create DAGSTER_HOME (default ``var/dagster``) with the project's dagster.yaml; InputError if that fails.

    A dagster.yaml that the operator wrote is kept.
    """
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(PROJECT / "var" / "dagster"))).absolute()
    os.environ["DAGSTER_HOME"] = str(home)
    ours, target = (PROJECT / CONFIG).read_text(encoding="utf-8"), home / CONFIG
    marker = ours.splitlines()[0]
    try:
        home.mkdir(parents=True, exist_ok=True)
        present = target.read_text(encoding="utf-8") if target.exists() else marker
        if present != ours and present.startswith(marker):
            with atomic_write(target) as temporary:
                temporary.write_text(ours, encoding="utf-8")
    except OSError as error:
        raise InputError(f"DAGSTER_HOME {home}: {error.strerror}; make room or choose another folder") from error
    return home


def owner_tag() -> dict[str, str]:
    """Return the tag that names this process; a process id alone may be reused, or belong to another machine."""
    return {OWNER: json.dumps([socket.gethostname(), os.getpid(), start_ticks(os.getpid())])}
