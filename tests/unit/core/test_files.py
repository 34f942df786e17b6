"""Publishing: complete or absent, also for two processes at once, after a crash and on a full disk."""

import codecs
import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from core import files
from core.errors import InputError
from core.files import (
    atomic_folder,
    atomic_write,
    read_json,
    read_json_lines,
    read_object,
    write_text,
)

ROOT = Path(__file__).resolve().parents[3]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_as_another_process(path: Path, *, then: str) -> subprocess.Popen[str]:
    """A process that has begun to write ``path``, half of it, and then does ``then``."""
    code = (
        "import os, sys, time\nfrom pathlib import Path\nfrom core.files import atomic_write\n"
        f"with atomic_write(Path({str(path)!r})) as temporary:\n"
        f"    temporary.write_text('half'); print(flush=True); {then}\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    write_text("old", tmp_path / "file")
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
        _ = 1 / 0
    assert (tmp_path / "file").read_text() == "old" and names(tmp_path) == ["file"]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    living = write_as_another_process(tmp_path / "file", then="time.sleep(600)")
    write_as_another_process(tmp_path / "file", then="os._exit(1)").wait()
    try:
        assert len(names(tmp_path)) == 2
        write_text("whole", tmp_path / "other")
        left = [name for name in names(tmp_path) if name.endswith(".tmp")]
        assert len(left) == 1 and f"-{living.pid}-" in left[0]
    finally:
        living.kill()
        living.wait()


def test_a_leftover_whose_process_id_runs_again_is_removed(tmp_path: Path) -> None:
    ours = files.temporary_name(tmp_path).name
    machine, pid, since, number = ours.strip(".").removesuffix(".tmp").split("-")
    (tmp_path / f".{machine}-{pid}-{int(since) - 1}-{number}.tmp").write_text("of an earlier process with our id")
    write_text("whole", tmp_path / "file")
    assert names(tmp_path) == ["file"]


def test_another_machines_files_are_left_alone_for_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / ".00000000-1-1-0.tmp", tmp_path / ".00000000-1-2-0.tmp"
    for folder in (old, new):
        (folder / "below").mkdir(parents=True)
        (folder / "below" / "file").write_text("x")
    for path in (old / "below" / "file", old / "below", old, new / "below", new):
        os.utime(path, (1, time.time() - 2 * files.FOREIGN_SECONDS))
    write_text("whole", tmp_path / "file")
    assert names(tmp_path) == [new.name, "file"]


def test_two_first_publications_of_one_content_both_succeed(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def publish(text: str) -> None:
        with atomic_folder(tmp_path / "model") as temporary:
            (temporary / "weights").write_text(text)
            both.wait(10)

    threads = [threading.Thread(target=publish, args=(text,)) for text in ("same", "same")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["model"] and (tmp_path / "model" / "weights").read_text() == "same"


def test_a_folder_is_replaced_only_when_asked_and_comes_back_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(text: str, *, replace: bool) -> None:
        with atomic_folder(tmp_path / "policy", replace=replace) as temporary:
            (temporary / "file").write_text(text)

    write("first", replace=False)
    write("second", replace=False)
    assert (tmp_path / "policy" / "file").read_text() == "first"
    write("third", replace=True)
    assert (tmp_path / "policy" / "file").read_text() == "third"

    def full(temporary: Path, path: Path) -> None:
        raise OSError(errno.ENOSPC, "full")

    def full_after_the_rename(temporary: Path, path: Path) -> None:
        temporary.rename(path)
        full(temporary, path)

    for fails in (full, full_after_the_rename):
        monkeypatch.setattr(files, "publish", fails)
        with pytest.raises(OSError, match="No space left"):
            write("fourth", replace=True)
        assert (tmp_path / "policy" / "file").read_text() == "third" and names(tmp_path) == ["policy"]


@pytest.mark.parametrize("write", ["temporary.write_text('x' * 1000)", "shutil.copyfile('/proc/self/exe', temporary)"])
def test_a_full_disk_is_one_message_with_the_file_that_could_not_be_written(write: str, tmp_path: Path) -> None:
    """A limit on file sizes fails the same calls as a full disk does; the error of a copy names its source first."""
    code = (
        "import resource, shutil, signal\nfrom pathlib import Path\nfrom core.cli import exit_status\n"
        "from core.files import atomic_write\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        f"def work():\n    with atomic_write(Path({str(tmp_path / 'file')!r})) as temporary:\n        {write}\n"
        "raise SystemExit(exit_status(work))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path / 'file'}: cannot write: File too large: make room there and start again\n"
    assert names(tmp_path) == []


def test_every_byte_is_on_the_disk_before_its_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def rename(source: Path, target: Path) -> None:
        calls.append(("rename", str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    with atomic_folder(tmp_path / "model") as temporary:
        (temporary / "shard").write_text("x")
        (temporary / "below").mkdir()
        (temporary / "below" / "file").write_text("y")
    *before, renamed, after = calls
    synced = {Path(path).relative_to(temporary).as_posix() for what, path in before if what == "sync"}
    assert synced == {".", "shard", "below", "below/file"}
    assert renamed == ("rename", str(tmp_path / "model")) and after == ("sync", str(tmp_path))


def test_json_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(codecs.BOM_UTF8 + b'{"a": 1}')
    (tmp_path / "many.jsonl").write_bytes(codecs.BOM_UTF8 + b'{"a": 1}\r\n{"a": 2}\r\n')
    assert read_json(tmp_path / "one.json") == read_object(tmp_path / "one.json") == {"a": 1}
    assert read_json_lines(tmp_path / "many.jsonl") == [{"a": 1}, {"a": 2}]
    (tmp_path / "one.json").write_bytes(codecs.BOM_UTF8 + b'{"a": "\xff"}')
    with pytest.raises(InputError, match="not UTF-8 at byte 10"):
        read_json(tmp_path / "one.json")
    (tmp_path / "many.jsonl").write_bytes(codecs.BOM_UTF8)
    assert read_json_lines(tmp_path / "many.jsonl") == []


def test_a_folder_is_in_the_way_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for folder in (Path(), tmp_path):
        with pytest.raises(IsADirectoryError), atomic_write(folder):
            pass
    assert [*tmp_path.iterdir()] == [] and not [*tmp_path.parent.glob(".*.tmp")]
