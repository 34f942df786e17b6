"""A Python program that a model wrote, run where it can reach nothing: no network, no files, no other process.

Bubblewrap (the program ``bwrap``) gives it separate namespaces, a read-only view of the interpreter, and an empty
``/tmp``. Limits of the kernel bound each process; the sum of their memory is watched from outside. The end of the first
process in the namespace is the end of all.

The kernel exempts root from its limit on processes. So root runs each program as a user that nobody else is, where it
may; otherwise, the number of processes is watched from outside alone.
"""

import contextlib
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from core.errors import InputError
from core.machine.processes import descendants

FIRST_USER = 1_000_000_000  # first of the ids that root gives to programs; no system assigns them
USERS = 64  # ids of one of our processes
FORKS = 4  # times the processes that a program may have: the kernel refuses more even while nobody watches
NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
SHOWN_PREFIX = "/python"  # where an interpreter outside /usr is in the sandbox
WATCH_S = 0.05
WALL = 4
PROGRAM = "/program.py"
OUT_OF_TIME = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the kernel's limit on processor time kills
# Limits first, so that the program starts with them and cannot raise them.
DRIVER = """
import os, resource, sys
if user := int(sys.argv[3]):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
for limit in sys.argv[2].split(","):
    name, most = limit.split("=")
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(most), int(most)))
os.execv(sys.executable, [sys.executable, "-I", sys.argv[1]])
"""
ADVICE = (
    "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap) where user namespaces are allowed, or set "
    "sandbox to the url of a SandboxFusion server; sandbox: none runs programs without any protection"
)


@dataclass(frozen=True)
class Limits:
    """What one run may take: seconds of processor time, bytes of memory and of each file, processes at once.

    A busy machine stretches the wall time, which therefore ends `WALL` times later.
    """

    seconds: float
    memory: int
    processes: int
    file_bytes: int = 1 << 20  # also of what it prints


class Run(NamedTuple):
    """How a program ended: ``problem`` is "" if it exited with status 0."""

    stdout: str
    problem: str


class SandboxFailed(RuntimeError):
    """The sandbox could not run a program; nothing follows about the program."""


class Sandbox(Protocol):
    """Where programs run."""

    def run(self, program: str, stdin: str) -> Run:
        """Run a program to its end.

        Raises:
            SandboxFailed: it did not run.
        """
        ...


class Bubblewrap:
    """Runs programs within ``bwrap``.

    Raises InputError if there is no such program, or it may not make namespaces here.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        program = shutil.which("bwrap")
        if program is None:
            raise InputError(f"there is no program bwrap: {ADVICE}")
        self._program = program
        self._users = itertools.count() if os.geteuid() == 0 else None
        problem = self._problem()
        if problem and self._users:  # this root may not make namespaces without one of users
            self._users = None
            problem = self._problem()
        if problem:
            raise InputError(f"{problem}: {ADVICE}")

    def run(self, program: str, stdin: str) -> Run:
        user = FIRST_USER + os.getpid() * USERS + next(self._users) % USERS if self._users else 0
        with _file(program) as source:
            command = [
                *self._command(source.fileno(), user),
                *_interpreter(_shown_python(), PROGRAM, self._limits, user),
            ]
            return _run(command, stdin, self._limits, inherited=(source.fileno(),))

    def _problem(self) -> str:
        """Return why a first program does not run; "" if it does."""
        try:
            ended = self.run("print('runs')", "")
        except SandboxFailed as error:
            return str(error)
        return "" if ended == Run("runs\n", "") else f"a first program did not run in bwrap ({ended.problem})"

    def _command(self, program: int, user: int) -> list[str]:
        return [
            *(self._program, *(NAMESPACES if user else ("--unshare-all",)), "--cap-drop", "ALL"),
            *(("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if user else ()),  # until it is that user
            *("--die-with-parent", "--new-session", "--clearenv"),
            *("--setenv", "LANG", "C.UTF-8", "--setenv", "HOME", "/tmp", "--hostname", "sandbox"),
            *_interpreter_files(),
            *(*_mode("0444", user), "--ro-bind-data", str(program), PROGRAM),
            # No /proc: where we are root, a program in the sandbox could write the settings of the kernel there.
            *("--dev", "/dev", *_mode("1777", user), "--size", str(8 * self._limits.file_bytes), "--tmpfs", "/tmp"),
            *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
        ]


class Unprotected:
    """Runs programs as they are, with limits alone, in an empty folder: a user has to ask for it by name."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(self, program: str, stdin: str) -> Run:
        with tempfile.TemporaryDirectory(prefix="luffy-code-") as folder:
            source = Path(folder) / "program.py"
            source.write_text(program, encoding="utf-8", errors="replace")
            return _run(_interpreter(_base_python(), str(source), self._limits), stdin, self._limits, folder=folder)


def _mode(mode: str, user: int) -> tuple[str, ...]:
    """Return the mode of what the next argument makes, where another user has to reach it."""
    return ("--perms", mode) if user else ()


def _interpreter(python: str, program: str, limits: Limits, user: int = 0) -> list[str]:
    """Return the command that runs ``program``; as root it becomes ``user`` first, unless that is 0."""
    most = {
        "CPU": math.ceil(limits.seconds),
        "AS": limits.memory,
        # Otherwise it counts all processes of the user, before Linux 5.14 those outside the sandbox, too.
        "NPROC": FORKS * limits.processes if user else limits.processes + 1_000,
        "FSIZE": limits.file_bytes,
        "CORE": 0,
        "NOFILE": 64,
    }
    limited = ",".join(f"{name}={value}" for name, value in most.items())
    return [python, "-I", "-c", DRIVER, program, limited, str(user)]


def _base_python() -> str:
    """Return the interpreter without our environment, because a program must not see its packages."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _interpreter_files() -> Iterator[str]:
    """Yield the arguments that show the interpreter and the libraries of the system, read-only."""
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in ("/bin", "/lib", "/lib64"):
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    if not _in_usr():
        yield from ("--ro-bind", os.path.realpath(sys.base_prefix), SHOWN_PREFIX)
        yield from ("--setenv", "LD_LIBRARY_PATH", f"{SHOWN_PREFIX}/lib")  # of libpython, if it is a shared library


def _in_usr() -> bool:
    return os.path.realpath(sys.base_prefix).startswith("/usr")


def _shown_python() -> str:
    """Return the interpreter's path in the sandbox, to which every user has access."""
    python = _base_python()
    return python if _in_usr() else f"{SHOWN_PREFIX}/{os.path.relpath(python, os.path.realpath(sys.base_prefix))}"


def _run(
    command: list[str], stdin: str, limits: Limits, *, inherited: tuple[int, ...] = (), folder: str | None = None
) -> Run:
    with _file(stdin) as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=printed,
            stderr=complaints,
            pass_fds=inherited,
            cwd=folder or "/",
            env={"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
            process_group=0,
        )
        try:
            problem = _watch(process, limits)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stderr = _read(complaints, limits)
        if stderr.startswith("bwrap: "):
            raise SandboxFailed(stderr.splitlines()[0][:200])
        if process.returncode in OUT_OF_TIME:
            problem = problem or f"no end within {limits.seconds:g} s of processor time"
        if not problem and process.returncode:
            last = (stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            problem = last[:200]
        return Run(_read(printed, limits), problem)


def _watch(process: "subprocess.Popen[bytes]", limits: Limits) -> str:
    """Wait for a process; why it had to be ended, or ""."""
    deadline = time.monotonic() + WALL * limits.seconds
    while True:
        try:
            process.wait(min(WATCH_S, max(0.0, deadline - time.monotonic())))
            return ""
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() >= deadline:
            return f"no end within {WALL * limits.seconds:g} s"
        family = descendants(process.pid)
        if len(family) > limits.processes + 1:  # bwrap has a process in the namespace, too
            return f"more than {limits.processes} processes"
        if sum(_resident(one.pid) for one in family) > limits.memory:
            return f"more than {limits.memory >> 20} MiB of memory"


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")


@contextmanager
def _file(text: str) -> Iterator[IO[bytes]]:
    """Yield an unnamed file with ``text``, open at its start."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode(errors="replace"))
        file.seek(0)
        yield file


def _read(file: IO[bytes], limits: Limits) -> str:
    file.seek(0)
    return file.read(limits.file_bytes).decode(errors="replace")
