"""``luffy run`` and ``luffy ui``, started as a user starts them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from processes import children, descendants, wait_gone

from core.files import read_yaml
from pipelines.cli.run import unread
from pipelines.cli.selection import selection_keys
from pipelines.definitions.factory import build_defs
from pipelines.definitions.instance import prepare_home
from tests.defs.project import settings_of

ROOT = Path(__file__).resolve().parents[2]
PART = "+group:targets"  # as the help says: with what it needs


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli.luffy", "run", *arguments],
        cwd=ROOT,
        env=environment,
        umask=0o022,  # what most machines have
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_run_is_shown_by_stage_and_in_the_ui_and_its_outputs_are_private(environment, tmp_path: Path, monkeypatch):
    done = run(environment, "--select", f'{PART} or key:"operations/retention"')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("not in the job everything: operations/retention; ") for line in lines)
    assert any(
        re.match(r"\[\d/7\] targets/prepared +done +[\d.]+ s  [\d]+ of 300 traces are used", line) for line in lines
    )
    assert any(re.search(r"(\d+) of \1 checks passed", line) for line in lines)
    assert f"outputs: {tmp_path / 'storage'}" in lines
    assert re.fullmatch(r"  (\S*/)?luffy ui: everything in the UI, with the page of the scorecard", lines[-2])
    assert re.fullmatch(r"time: \d+ s, of which (\d+ s \w+/\w+, ){4}\d+ s the rest", lines[-1])
    assert done.stderr == ""
    assert not list((tmp_path / "storage").rglob("*.tmp"))
    written = [path for folder in ("storage", "home") for path in (tmp_path / folder).rglob("*")]
    assert len(written) > 20
    assert not [path for path in written if path.lstat().st_mode & 0o077 and not path.is_symlink()]
    monkeypatch.setenv("DAGSTER_HOME", environment["DAGSTER_HOME"])
    with dg.DagsterInstance.get() as instance:
        found = instance.get_runs()[0]
        assert (found.job_name, found.status) == ("everything", dg.DagsterRunStatus.SUCCESS)
        assert instance.get_latest_materialization_event(dg.AssetKey(["benchmarks", "suite"]))
    # What its timeline lists by, and its list of runs shows.
    (location,) = (entry["python_module"] for entry in read_yaml(ROOT / "workspace.yaml", "")["load_from"])
    assert found.remote_job_origin and found.remote_job_origin.location_name == location["location_name"]
    assert {key: found.tags[key] for key in ("profile", "recipe")} == {"profile": "embedded", "recipe": "luffy"}


CANCEL_AT_ONCE = """
import sys
import dagster as dg
from core.progress import Terminal
from pipelines.cli.execute import FORK, Command
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.jobs import OBSERVE
from pipelines.settings import load

join = FORK.Process.join

def interrupt(process):
    FORK.Process.join = join
    raise KeyboardInterrupt

FORK.Process.join = interrupt
prepare_home(load().storage.root)
with dg.DagsterInstance.get() as instance:
    sys.exit(Command(load()).execute(instance, OBSERVE, Terminal(every_s=1.0)))
"""


def test_ctrl_c_before_a_run_exists_cancels_it(environment):
    """`Command.execute` says so by its status, so that the run that would follow does not start."""
    command = [sys.executable, "-c", CANCEL_AT_ONCE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stdout.splitlines()[-1].startswith("cancelled; ") and done.stderr == ""


@pytest.mark.parametrize(
    ("selection", "assets"),
    [
        (
            "evals/base",
            {"evals/base/arithmetic", *(f"ood/base/arithmetic_{name}" for name in ("long", "mul", "short"))},
        ),
        ('+key:"targets/checks"', {"targets/train", "targets/prepared", "benchmarks/suite", "models/base"}),
        ("key:models/base or key:targets/trai*", {"models/base", "targets/train"}),
        ('tag:"luffy/role"="policy" and key:evals*', {"evals/policy/arithmetic"}),
    ],
)
def test_a_selection_takes_the_names_that_the_terminal_prints(selection: str, assets: set[str]) -> None:
    defs = build_defs(settings_of(LUFFY_PROFILE="embedded"))
    selected, others = selection_keys(defs, selection, "everything")
    assert ({key.to_user_string() for key in selected}, others) == (assets, [])


def test_only_keys_that_the_user_gave_are_told_to_have_no_effect() -> None:
    sets = ["training.config.method.advantage.use_std=true", "training.config.data.train_batch_size=8", "split.seed=1"]
    assert [unread(recipe, sets) for recipe in ("luffy", "sft")] == [[], ["method.advantage.use_std"]]


def test_the_home_starts_in_the_folder_of_the_user_and_its_own_file_stays(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", "mine")
    file = prepare_home(str(tmp_path)) / "dagster.yaml"
    assert file == tmp_path / "mine" / "dagster.yaml" and file.is_file()
    file.write_text("# mine\n")
    assert prepare_home(str(tmp_path)) == file.parent and file.read_text() == "# mine\n"


@pytest.mark.usefixtures("build_on_small")
@pytest.mark.parametrize(
    ("rows", "setting", "parts"),
    [
        ("4096", "targets.source=none.parquet", ["none.parquet"]),
        ("300", "targets.min_rows=5000", ["enough_rows", "300"]),
    ],
)
def test_a_run_that_fails_says_why_in_one_line(environment, rows: str, setting: str, parts: list[str]):
    done = run(environment | {"LUFFY__TARGETS__EMBEDDED_ROWS": rows}, "--select", PART, "--set", setting)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: ") and all(part in error for part in parts)


def start_at_work(environment: dict[str, str], tmp_path: Path, *more: str) -> "subprocess.Popen[str]":
    """A run in a process group of its own, whose step targets/prepared is at work."""
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", PART]
    process = subprocess.Popen(
        [*command, "--set", "targets.embedded_rows=40000", *more],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not list((tmp_path / "storage" / "targets" / "prepared").glob(".*.tmp")):
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("at_once", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_nothing_survives_the_process_of_the_run_that_is_killed(environment, tmp_path: Path, at_once: str):
    process = start_at_work(environment, tmp_path, "--max-concurrent", at_once)
    (executing,), family = children(process.pid), descendants(process.pid)
    os.kill(executing, signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 1, rest
    wait_gone(family, 120)
    assert not list((tmp_path / "storage" / "targets" / "prepared").glob("[!.]*"))  # the step did not go on to its end


def test_a_taken_port_is_one_message(environment, luffy):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = luffy(environment, "ui", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert done.stderr.startswith("error: port ")
    assert "luffy ui --port 3001" in done.stderr
    assert len(done.stderr.splitlines()) == 1
