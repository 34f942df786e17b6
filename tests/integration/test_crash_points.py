"""Each stage, killed or out of disk at each of its calls to the disk, is started again and ends as an unbroken one."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGES = Path(__file__).with_name("crash_stages.py")
WITH_TORCH = ("checkpoint", "export")
NAMES = ("base", "suite", "preparation", "grading", "report", "promotion", "rollback", "retention", *WITH_TORCH)
CALLS = ("rename", "fsync", "link", "unlink", "unlinkat", "rmdir", "mkdir", "write", "sendfile", "copy_file_range")
FULL = ("rename", "fsync", "link", "mkdir", "write", "sendfile", "copy_file_range")  # calls that a full disk fails
BIG = 1 << 20  # bytes of a write that counts
POINTS = 3  # of each call, spread over the run
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\(.*?(, (?P<size>\d+))?\) += (?P<result>-?\d+)")


def command(stage: str, folder: Path, *more: str) -> list[str]:
    return [sys.executable, str(STAGES), stage, str(folder), *more]


def start(words: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    return subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def traced(words: list[str], log: Path, *inject: str) -> "subprocess.CompletedProcess[str]":
    options = [part for each in inject for part in ("-e", f"inject={each}")]
    if not any("signal=" in each for each in inject):  # strace 6.1 does not inject signals with the faster filter
        options.append("--seccomp-bpf")
    return start(["strace", "-f", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *options, *words])


def outputs(folder: Path) -> dict[str, bytes]:
    """What is in ``folder`` besides locks: the bytes of files, and the folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b"folder"
        for path in folder.rglob("*")
        if path.suffix != ".lock"
    }


def points(log: Path) -> list[tuple[str, int]]:
    """The calls of the main process that an unbroken run makes on our files: (call, the how-manieth of its kind)."""
    counts: Counter[str] = Counter()
    found: dict[str, list[int]] = {}
    lines = log.read_text(errors="replace").splitlines()
    main = lines[-1].split()[0]  # it ends last
    for line in lines:
        if (call := CALL.match(line)) and call["pid"] == main:
            name = call["name"]
            counts[name] += 1
            if name != "write" or int(call["result"]) >= BIG:
                found.setdefault(name, []).append(counts[name])
    return [
        (name, number)
        for name, numbers in found.items()
        for number in sorted({numbers[index * (len(numbers) - 1) // (POINTS - 1)] for index in range(POINTS)})
    ]


@pytest.fixture(scope="module", autouse=True)
def may_trace(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if traced(["true"], tmp_path_factory.mktemp("strace") / "log").returncode:
        pytest.skip("this machine does not let a process trace its children")


class Stage:
    """A stage with what it finds, and what an unbroken run of it leaves."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.before, self.work = folder / "before", folder / "work"
        self.before.mkdir()
        done = start(command(name, self.before, "prepare"))
        assert done.returncode == 0, done.stderr
        self.reset()
        done = traced(command(name, self.work), folder / "log")
        assert done.returncode == 0, done.stderr
        self.after = outputs(self.work)
        self.points = points(folder / "log")
        assert "rename" in {call for call, _ in self.points}

    def reset(self) -> None:
        """What the stage finds, at the same path each time: outputs name it."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.before, self.work)

    def check_earlier_outputs(self, where: str) -> None:
        """Every file that was there is what it was, or what the unbroken run makes of it."""
        now = outputs(self.work)
        for name, content in outputs(self.before).items():
            assert now.get(name) in (content, self.after.get(name)), f"{where}: {name}"

    def finish(self, where: str) -> None:
        done = start(command(self.name, self.work))
        assert done.returncode == 0, f"{where}: {done.stderr}"
        now = outputs(self.work)
        assert sorted(now) == sorted(self.after), where
        assert [name for name in now if now[name] != self.after[name]] == [], where


def break_off(name: str, folder: Path, calls: Collection[str]) -> None:
    stage = Stage(name, folder)
    stage.points = [point for point in stage.points if point[0] in calls]
    killed = 0
    for call, number in stage.points:
        where = f"{name}: killed at {call} {number}"
        stage.reset()
        done = traced(command(name, stage.work), folder / "log", f"{call}:signal=KILL:when={number}")
        killed += done.returncode == 128 + signal.SIGKILL or done.returncode == -signal.SIGKILL
        stage.finish(where)
    assert killed >= len(stage.points) / 2
    for call, number in [point for point in stage.points if point[0] in FULL]:
        where = f"{name}: no space at {call} {number}"
        stage.reset()
        done = traced(command(name, stage.work), folder / "log", f"{call}:error=ENOSPC:when={number}")
        if done.returncode:
            assert done.stderr.count("error: ") == 1 and "Traceback" not in done.stderr, f"{where}: {done.stderr}"
            assert str(stage.work) in done.stderr and "No space left" in done.stderr, f"{where}: {done.stderr}"
        stage.check_earlier_outputs(where)
        stage.finish(where)
    print(f"{name}: {len(stage.points)} points")


def test_a_promotion_that_is_broken_off_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    break_off("promotion", tmp_path, calls=("rename",))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_every_stage_that_is_broken_off_ends_as_an_unbroken_one(name: str, tmp_path: Path) -> None:
    if name in WITH_TORCH and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed in this interpreter")
    break_off(name, tmp_path, calls=CALLS)
