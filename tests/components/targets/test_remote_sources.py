"""Sources elsewhere: splits and files of the hub, and other storage; each read in a process of its own where needed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hub import serve_hub

from core.errors import InputError
from tests.unit.targets.test_sources import PUBLISHED, read


def test_a_split_of_the_hub_is_read(tmp_path: Path) -> None:
    """In a process of its own: huggingface_hub reads its settings when it is imported."""
    configs = "configs:\n- config_name: main\n  data_files:\n  - {split: train, path: main/train.jsonl}\n"
    code = (
        "from targets.settings import build_config\nfrom targets.read.sources import read_source\n"
        "config = build_config({'source': [{'path': 'openai/gsm8k', 'subset': 'main', 'mapping': 'gsm8k'}]})\n"
        "print([(t.id, t.gold, t.response) for t in read_source(config)])"
    )
    with serve_hub() as hub:
        files = {"README.md": f"---\n{configs}---\n".encode()}
        files["main/train.jsonl"] = json.dumps(PUBLISHED["gsm8k"]).encode()
        hub.repositories["datasets/openai/gsm8k"] = [files]
        environment = {**os.environ, **hub.environment(), "HF_HOME": str(tmp_path), "HF_DATASETS_OFFLINE": "0"}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "('openai/gsm8k:0', '4', '<think>\\nShe has 2+2 = 4 eggs." in done.stdout, done.stderr


def test_a_driver_that_is_not_installed_is_named() -> None:
    for scheme, package in (("s3", "s3fs"), ("gs", "gcsfs")):
        with pytest.raises(InputError, match=rf"{scheme}://bucket/x\.parquet: cannot be reached: .*{package}"):
            read(f"{scheme}://bucket/x.parquet")


class DriverError(Exception):
    """What the driver of a storage raises: botocore's errors are no OSError either."""


class GoneFileSystem(MemoryFileSystem):
    """A storage that no longer answers, to its listing or to its reading."""

    protocol = "gone"

    def isfile(self, path: str) -> bool:
        if "listing" in path:
            raise DriverError("could not connect")
        return True

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> Any:
        raise DriverError("could not connect")


@pytest.mark.parametrize(("part", "problem"), [("listing", "cannot be reached"), ("reading", "cannot be read")])
def test_a_storage_that_is_gone_is_named(part: str, problem: str) -> None:
    fsspec.register_implementation("gone", GoneFileSystem, clobber=True)
    with pytest.raises(InputError, match=rf"source gone:///?{part}\.jsonl: {problem}: .*could not connect"):
        read(f"gone://{part}.jsonl")


def error_without_network(source: str) -> str:
    """The last line of the error that reading ``source`` ends with where no hub answers."""
    code = (
        "from targets.settings import build_config\nfrom targets.read.sources import read_source\n"
        f"list(read_source(build_config({{'source': {source!r}}})))"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    return done.stderr.strip().splitlines()[-1]


def test_an_unreachable_hub_is_one_error() -> None:
    expected = "core.errors.InputError: source nobody/nothing: no such file or folder here"
    assert error_without_network("nobody/nothing").startswith(expected)
