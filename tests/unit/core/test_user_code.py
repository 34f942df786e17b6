"""The user's own code: which modules its identity covers, and which functions are refused before anything runs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import PROJECT
from core.errors import InputError
from core.plugins.user_code import check_function, load_function, source_digests, user_code_digest


@pytest.fixture(autouse=True)
def unloaded(tmp_path: Path) -> Iterator[None]:
    """Each test is a process of its own as far as the user's modules are concerned."""
    folders, modules = [*sys.path], {*sys.modules}
    yield
    sys.path[:] = folders
    for name in {*sys.modules} - modules:
        del sys.modules[name]


def write(folder: Path, **files: str) -> None:
    """Write modules, whose names have ``__`` for each slash."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def package(folder: Path, **files: str) -> Path:
    write(folder, **files)
    (folder / "__init__.py").touch()
    return folder


def test_a_file_of_a_package_and_the_modules_beside_it_that_it_imports_by_their_plain_names(tmp_path: Path) -> None:
    folder = package(
        tmp_path / "rocks",
        grade="import json\nfrom scales import MOHS\ndef f(trace): return MOHS",
        scales="from units import ONE\nMOHS = 10 * ONE",
        units="ONE = 1",
        json="the name of a module of Python: 'import json' never means this",
        other="",
    )
    assert load_function(f"{folder}/grade.py:f")(None) == 10
    covered = {"rocks/__init__.py", "rocks/grade.py", "rocks/scales.py", "rocks/units.py"}
    assert {*source_digests(folder / "grade.py")} == covered
    before = user_code_digest(folder / "grade.py")
    write(folder, units="ONE = 2")
    assert user_code_digest(folder / "grade.py") != before


def test_a_package_needs_no_init_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        ores__grade="from ores.purity import LEAST\nfrom ores.metals import iron",
        ores__purity="LEAST = 1",
        ores__metals__iron="from ..purity import LEAST\nfrom ...coal import SEAM",
        ores__unused="",
        coal="SEAM = 1",
    )
    covered = {"grade.py", "purity.py", "metals/iron.py", "../coal.py"}
    assert {*source_digests(tmp_path / "ores/grade.py")} == covered
    write(tmp_path, deep__ores__grade="from deep.tools import x", deep__tools="x = 1", tools="")
    assert {*source_digests(tmp_path / "deep/ores/grade.py")} == {"grade.py", "../tools.py"}


def test_two_packages_with_helpers_of_one_name_are_refused(tmp_path: Path) -> None:
    text = "import types\nfrom bounds import LOW\ndef f(trace): return LOW"
    for number, name in enumerate(("north", "south")):
        package(tmp_path / name, rule=text, bounds=f"LOW = {number}", types="")
    package(
        tmp_path / "west",
        rule="import queue\nfrom west import bounds, queue as lines\ndef f(trace): return bounds.LOW",
        bounds="LOW = 2",
        queue="",
    )
    sys.path.append(str(tmp_path))
    check_function(f"{tmp_path}/north/rule.py:f", ["trace"])
    check_function(f"{tmp_path}/west/rule.py:f", ["trace"])  # its helper has another name
    with pytest.raises(
        InputError, match=r"south/rule\.py imports .*south/bounds\.py, but Python has .*north/bounds\.py"
    ):
        check_function(f"{tmp_path}/south/rule.py:f", ["trace"])


def test_a_module_of_the_current_folder_is_to_be_named_as_a_file(tmp_path: Path, monkeypatch) -> None:
    write(tmp_path, bend="def f(trace): ...", knots__bend="def f(trace): ...")
    monkeypatch.chdir(tmp_path)
    for module, file in (("bend", "bend.py"), ("knots.bend", "knots/bend.py")):
        with pytest.raises(InputError, match=f"no module {module} on PYTHONPATH: name the file instead: {file}:f"):
            check_function(f"{module}:f", ["trace"])


def test_a_program_that_python_m_starts_does_not_search_the_current_folder(tmp_path: Path) -> None:
    code = "import sys\nfrom core.cli import exit_status\nexit_status(lambda: print(sys.path))\n"
    write(tmp_path, program=code)
    command = [sys.executable, "-m", "program"]
    for path, times in ((str(PROJECT), 0), (f"{PROJECT}:{tmp_path}", 1)):
        printed = subprocess.check_output(command, cwd=tmp_path, env={"PYTHONPATH": path}, text=True)
        assert printed.count(f"'{tmp_path}'") == times


@pytest.mark.parametrize("names_init", [True, False])
def test_a_file_with_a_relative_import_is_to_be_named_as_a_module(tmp_path: Path, names_init: bool) -> None:
    write(tmp_path, maps__read="from .scale import ONE\ndef f(trace): ...", maps__scale="ONE = 1")
    if names_init:
        package(tmp_path / "maps")
    message = f"attempted relative import .*: name it maps.read:f, with {tmp_path} on PYTHONPATH"
    with pytest.raises(InputError, match=message):
        check_function(f"{tmp_path}/maps/read.py:f", ["trace"])
    sys.path.append(str(tmp_path))
    check_function("maps.read:f", ["trace"])


def test_a_function_that_nothing_awaits_is_refused(tmp_path: Path) -> None:
    write(tmp_path, diary="async def note(step, metrics): ...\ndef plain(step, metrics): ...")
    check_function(f"{tmp_path}/diary.py:plain", ["step", "metrics"])
    with pytest.raises(InputError, match=r"diary\.py:note: expected a plain function, not an async function"):
        check_function(f"{tmp_path}/diary.py:note", ["step", "metrics"])
