"""A temporary folder with a long name has a short one, in which sockets can have their addresses."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from core import PROJECT
from core.machine.temporary_folder import LONGEST, short_temporary_folder

CAPTURED = {"cwd": PROJECT, "capture_output": True, "text": True, "check": True}


@pytest.mark.parametrize("length", [60, 95])
def test_a_socket_has_room_in_a_long_temporary_folder(tmp_path: Path, monkeypatch, length: int) -> None:
    long = tmp_path / ("x" * length)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with short_temporary_folder() as variables:
        folder = variables["TMPDIR"]
        assert len(folder) <= LONGEST and os.path.samefile(folder, long)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{folder}/{'s' * 68}")
        assert [file.name for file in long.iterdir()] == ["s" * 68]
    assert not os.path.lexists(folder) and len(list(long.iterdir())) == 1


def test_a_process_gets_a_short_name_until_it_ends(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    program = (
        "import tempfile; from core.machine.temporary_folder import shorten_temporary_folder as shorten; "
        "shorten(); shorten(); print(tempfile.gettempdir()); open(tempfile.gettempdir() + '/kept', 'w').close()"
    )
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(long)}, **CAPTURED)
    assert len(done.stdout.strip()) <= LONGEST and not os.path.lexists(done.stdout.strip()), done.stderr
    assert [file.name for file in long.iterdir()] == ["kept"]
