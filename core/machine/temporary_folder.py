"""Short names for long temporary folders: the address of a socket has at most 107 bytes on Linux."""

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SHORT_FOLDER = "/tmp"  # only a link is made here, in a new folder to which nobody else can write
LONGEST = 38  # bytes: Ray puts up to 69 behind it (/ray/session_DATE_TIME_PID/sockets/plasma_store)


@contextmanager
def short_temporary_folder() -> Iterator[dict[str, str]]:
    """Yield the variable TMPDIR for a process that makes sockets: a link to our temporary folder if that is too long.

    The data still go where TMPDIR says, as on a cluster that gives each job a folder. Nothing is set for a short one.
    """
    target = tempfile.gettempdir()
    if len(os.fsencode(target)) <= LONGEST:
        yield {}
        return
    with tempfile.TemporaryDirectory(dir=SHORT_FOLDER) as folder:
        link = Path(folder) / "t"
        link.symlink_to(target, target_is_directory=True)
        yield {"TMPDIR": str(link)}


def shorten_temporary_folder() -> None:
    """Give this process, and those that it starts from now on, a short name of the temporary folder until it ends."""
    stack = ExitStack()
    if variables := stack.enter_context(short_temporary_folder()):
        atexit.register(stack.close)
        os.environ.update(variables)
        tempfile.tempdir = None  # read from the variable again
