"""An environment against its lock, and the doctors that say so."""

import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core.machine.package_lock import differences, locked_versions, summary
from training.diagnosis.machine import CHECKS, HOST, MACHINE, MACHINE_GPU, checks_of

ROOT = Path(__file__).resolve().parents[3]


def install(site: Path, name: str, version: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "train.lock"
    file.write_text(
        "Foo_Bar==1.2 \\\n    --hash=sha256:aa==\n    # via x==3\ntorch==2.13.0\n# comment==1\nzope.x==4 ; extra\n"
    )
    return file


def test_what_differs_is_named(lock: Path, tmp_path: Path) -> None:
    assert locked_versions(lock) == {"foo-bar": "1.2", "torch": "2.13.0", "zope-x": "4"}
    site = tmp_path / "site"
    install(site, "foo.bar", "1.2")
    install(site, "torch", "2.13.0+cpu")  # the same version, built for the CPU
    install(site, "zope-x", "4")
    assert differences(lock, [str(site)]) == []
    install(tmp_path / "other", "foo-bar", "1.1")
    assert differences(lock, [str(tmp_path / "other")]) == [
        "foo-bar is 1.1, not 1.2",
        "torch is missing",
        "zope-x is missing",
    ]
    assert summary([f"p{number}" for number in range(7)]) == "p0, p1, p2, p3, p4 and 2 more"


def doctor(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_doctor_names_what_is_taken_and_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = doctor("-m", "pipelines.cli.luffy", "doctor", "--port", str(port))
    assert done.returncode == 1
    assert f"FAIL  port: {port}: Address already in use: stop what listens there" in done.stdout


def test_the_doctor_needs_no_packages() -> None:
    done = doctor("-S", "-m", "pipelines.cli.doctor")
    assert "Traceback" not in done.stderr and f"ok    python: {platform.python_version()}" in done.stdout, done.stderr


def test_every_check_says_how_to_mend_it_and_has_one_line_in_a_doctor() -> None:
    for doctors in ((HOST,), (MACHINE,), (MACHINE, MACHINE_GPU)):
        names = [check.name for check in checks_of(*doctors)]
        assert names and len(names) == len(set(names)), doctors
    for check in CHECKS:
        assert check.remedy.format(kind="gpu") and check.when, check.name


def test_tokens_are_counted_by_the_release_that_trains() -> None:
    """The digest of a tokenizer covers its file, so its tokens must not depend on who counts them."""
    locks = (Path(__file__).resolve().parents[3] / "requirements").glob("*.lock")
    releases = {
        lock.name: locked_versions(lock)["tokenizers"] for lock in locks if "tokenizers" in locked_versions(lock)
    }
    assert len(releases) == 4 and len(set(releases.values())) == 1, releases
