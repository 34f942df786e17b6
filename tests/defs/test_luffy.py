"""The command `luffy`: its help, its completion, and that it reaches the programs behind it from anywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer
from processes import clean_environment
from typer.testing import CliRunner

from core.errors import InputError
from core.plugins.config_files import PROFILES, config_names
from pipelines.cli.explain import explain_run
from pipelines.cli.luffy import app
from tests.defs.blocks import command_lines

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture
def luffy(tmp_path: Path):
    """Runs the console script that `make setup` installs, through a link on PATH, from another folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "luffy").symlink_to(Path(sys.prefix) / "bin" / "luffy")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LUFFY", "DAGSTER", "PYTHONPATH"))}

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        storage = str(tmp_path / "storage")
        settings = {"LUFFY__STORAGE__ROOT": storage, "DAGSTER_HOME": str(tmp_path / "home"), "COLUMNS": "100"}
        environment = {**kept, **settings, **variables, "PATH": path}
        command = ["luffy", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_every_command_has_a_help_and_every_option_says_what_it_does(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = dict(command_lines())
    assert {"luffy targets push", "luffy train export", "luffy evaluate leaderboard"} <= set(lines)
    assert len(lines) > 25
    for line, context in lines.items():
        assert context.command.help and context.command.help.rstrip().endswith((".", "`.")), line
        for parameter in context.command.params:
            help_text = getattr(parameter, "help", None)
            assert parameter.name == "help" or (help_text and help_text.rstrip().endswith(".")), (line, parameter.name)
    for line in [line for line in lines if not line.startswith("luffy research")]:
        done = CliRunner().invoke(app, [*line.split()[1:], "--help"], prog_name="luffy")
        assert done.exit_code == 0 and f"Usage: {line} " in done.output, (line, done.output)
        options = [part for parameter in lines[line].command.params for part in parameter.opts if part[:2] == "--"]
        assert all(option in done.output for option in options), line


def test_every_help_fits_one_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for line, context in command_lines():
        if line.startswith("luffy research"):  # which starts another program
            continue
        output = CliRunner().invoke(app, [*line.split()[1:], "--help"], prog_name="luffy").output
        assert len(output.splitlines()) <= 42, (line, output)
        options = [parameter for parameter in context.command.params if parameter.name != "help"]
        assert len(options) <= 17, line


def test_it_prints_the_version():
    shown = CliRunner().invoke(app, ["--version"])
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited and (shown.exit_code, shown.output) == (0, f"luffy {cited[1]}\n")


def test_the_help_is_there_at_once(luffy):
    """What takes time to import, Dagster above all, is imported when a command runs."""
    program = "import sys\nfrom pipelines.cli.luffy import main\nmain([])\nprint([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1]
    assert "'typer'" in modules
    for slow in ("dagster", "pyarrow", "torch"):
        assert f"'{slow}'" not in modules


def test_files_of_the_current_folder_are_not_taken_for_the_project(luffy, tmp_path: Path):
    for name in ("training", "evaluation", "core", "enum"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a script of the user')\n")
    (tmp_path / "curve.yaml").write_text("defaults:\n  - luffy\nmethod:\n  type: curve:Bend\n")
    (tmp_path / "curve.py").write_text("class Bend: ...\n")
    refused = luffy("evaluate", "suite", "--nothing")  # another interpreter
    assert refused.returncode == 2
    assert refused.stderr == "error: No such option: --nothing; see luffy evaluate suite --help\n"
    model = str(ROOT / "training/embedded_model/model")
    refused = luffy("train", "--recipe", "curve.yaml", "--targets", "curve.yaml", "--model", model, "--out", "run")
    said = "curve:Bend: no module curve on PYTHONPATH: name the file instead: curve.py:Bend"
    assert refused.stderr == f"error: recipe {tmp_path / 'curve.yaml'}: method.type: {said}\n"


def test_an_option_that_an_examination_would_ignore_is_refused():
    refused = CliRunner().invoke(app, ["doctor", "--profile", "none", "--hardware", "gpu"])
    assert isinstance(refused.exception, InputError)
    assert str(refused.exception).startswith("--hardware and --profile: give one of them")


def test_the_wheel_runs_from_any_folder_and_writes_below_it(tmp_path: Path):
    ignored = shutil.ignore_patterns(".*", "var", "tests", "results", "runs", "build", "*.egg-info", "__pycache__")
    source = shutil.copytree(ROOT, tmp_path / "source", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path / "site", source], check=True)
    project = tmp_path / "site" / (tmp_path / "site" / "luffy_on_dagster.pth").read_text().strip()

    def luffy(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = clean_environment() | {"PYTHONPATH": str(project), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-P", "-m", "pipelines.cli.luffy", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    run = luffy("run", "--profile", "smoke", "--select", "key:benchmarks/suite or key:models/base")
    assert run.returncode == 0, run.stderr
    assert f"outputs: {tmp_path / 'var/smoke'}\n" in run.stdout
    assert (tmp_path / "var/smoke/references/models/base.json").is_file()
    refused = luffy("evaluate", "generate", "--request", "request.json")
    cached = tmp_path / "cache" / "luffy-on-dagster" / "{}.{}".format(*sys.version_info) / ".venv-train/bin/python"
    assert refused.stderr.startswith(f"error: no training interpreter at {cached}: run `luffy setup`")


def test_the_shell_completes_commands_and_profiles(luffy):
    def completed(line: str) -> set[str]:
        words = line.split(" ")
        variables = {"_LUFFY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return set(luffy(**variables).stdout.split())

    assert completed("luffy ") == set(COMMANDS)
    assert completed("luffy train ex") == {"examine", "export"}
    assert completed("luffy run --profile ") == set(config_names(PROFILES)) >= {"embedded", "paper"}


def test_the_folder_of_a_policy_stands_for_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(ROOT / "research/runs/comparison/luffy-0.zip") as recorded:
        recorded.extractall(run := tmp_path / "run")
    config = json.loads((run / "lineage.json").read_text(encoding="utf-8"))["config"]
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    (run / "policy").mkdir()
    (run / "lineage.json").rename(run / "policy" / "lineage.json")
    said = []
    for folder in (run, run / "policy"):
        explain_run(folder, None)
        said.append(capsys.readouterr().out)
    assert said[0].startswith("60 steps, ") and said[1] == said[0]


INTERRUPTED_IMPORT = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from core.machine.interruptible import run_package
from pipelines.cli import run

class CtrlC(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
"""


@pytest.mark.parametrize("program", ["run()", "run_package('training')", "run_package('evaluation')"])
def test_ctrl_c_during_the_imports_is_one_line(program: str):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT + program]
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_program_that_ctrl_c_may_end_has_its_arguments():
    command = [sys.executable, "-m", "core.machine.interruptible", "evaluation", "suite", "--out", "s", "--limit", "x"]
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --limit: benchmarks.limit: Input should be a valid integer")
