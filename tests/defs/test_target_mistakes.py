"""Mistakes and broken machines while targets are made: one message, and nothing half-written."""

import errno
import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

from assets.shared.storage import Storage
from core.errors import InputError
from tests.defs.project import message
from tests.defs.small_targets import INPUTS, SMALL, TARGETS


def outputs(project) -> dict[str, str]:
    """The files without what was filtered before an error, which is kept for the next run."""
    return {name: digest for name, digest in project.files().items() if not name.startswith("targets/decisions/")}


@pytest.mark.parametrize("source", ["no/such/folder-of-mine", "/nowhere/model"])
def test_a_model_that_is_not_there_is_one_message(build, source: str):
    project = build(model__source=source)
    result = project.run("models/base")
    assert source.lstrip("/") in message(result)
    assert project.files() == {}


def test_a_wrong_value_in_the_launchpad_is_one_message(build):
    project = build(**SMALL)

    def refused(**luffy):
        return message(project.run(*INPUTS, *TARGETS[:2], **luffy))

    assert refused(set=["benchmarks.limit=0"]).startswith("--set benchmarks.limit: Input should be greater than or")
    assert "targets.kep is not a setting; did you mean keep?" in refused(set=["targets.kep=first"])
    assert refused(recipe="nope").startswith("--set training.recipe: no recipe 'nope'")
    assert "change it in the profile, and reload" in refused(set=["suite.name=paper"])
    assert "change it in the profile, and reload" in refused(set=["difficulty.samples=4"])  # of no asset here


def test_an_asset_without_its_input_says_what_to_materialize(build):
    project = build(**SMALL)
    result = project.run("targets/train")
    assert not result.success
    failure = next(event for event in result.all_events if event.event_type_value == "STEP_FAILURE")
    assert "targets/prepared: not materialized" in json.dumps(failure.step_failure_data.error.to_string())


def test_a_storage_that_cannot_be_written_is_one_message(build, tmp_path: Path):
    settings = {**SMALL, "storage__root": str(tmp_path / "file" / "storage")}
    project = build(**settings)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"storage\.root: .*/file is a file; expected a folder"):
        build(**settings)
    result = project.run("benchmarks/suite")
    assert "cannot write" in message(result)
    assert "(storage.root)" in message(result)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows over 20 kB, and writing more is an error: what a disk does that becomes full meanwhile.

    The limit holds for every file of this process, pytest's own output among them: keep it around the one call.
    """
    forkserver.ensure_running()  # now, because it passes on the limit that it starts with
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_copy_that_finds_the_disk_full_names_what_it_writes(tmp_path: Path):
    copy = tmp_path / "models" / "model.safetensors"
    with pytest.raises(InputError, match=rf"cannot write {copy}: .*make room"), Storage(root=str(tmp_path)).writable():
        raise OSError(errno.ENOSPC, "No space left on device", "elsewhere/model.safetensors", None, str(copy))


def test_a_disk_that_fills_up_is_one_message_and_leaves_nothing_half_written(build):
    project = build(benchmarks__limit="20")
    assert project.run(*INPUTS).success
    before = project.files()
    with full_disk():
        result = project.run("targets/prepared", "targets/rejected")
    assert "cannot write" in message(result)
    assert "make room" in message(result)
    assert outputs(project) == before
