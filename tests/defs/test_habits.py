"""What contributors meet before any code: the check of commit subjects, and workflows that call what is there."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipelines", "assets", "training", "evaluation", "targets", "grading", "core")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("subject", "accepted"),
    [
        ("fix(targets): read the keys that come late", True),
        ("docs: say which ports listen", True),
        ("Runs of the comparison", False),
        (f"feat: {'long ' * 15}", False),
    ],
)
def test_the_commit_hook_takes_short_conventional_subjects(subject: str, accepted: bool, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nThe body says why.\n")
    command = [Path(sys.executable).with_name("gitlint"), "--msg-filename", message]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == accepted, done.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_calls_what_is_there(file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    jobs = yaml.safe_load(file.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands
    for command in commands:
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets
        assert all((ROOT / path).exists() for path in re.findall(r"(?:tests/\S+|\.ci/\S+|CHANGELOG\.md)", command))


def test_each_module_of_tests_has_a_name_of_its_own() -> None:
    """Two of one name cannot be collected together, as ``pytest tests`` does."""
    counts = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
