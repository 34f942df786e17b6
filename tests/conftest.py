"""Fixtures of every test level."""

import importlib.util
import signal
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
IN_TRAINING = importlib.util.find_spec("torch") is not None
pytest_plugins = ["preparing", "published_files", "teachers", *(["configurations"] if IN_TRAINING else [])]

# A shell starts background jobs with Ctrl-C ignored, which the processes of the tests would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no error: what hangs is ended by pytest's timeout. The same commit is tried on the same examples.
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

# `make test` runs this folder in both interpreters; each collects what its packages can run.
TRAINING = [
    "gpu/*",
    "gpu_lock/*",
    "messages/test_training*.py",
    "unit/training/*",
    "components/training/*",
    "integration/test_evaluation_ray.py",
    "integration/test_generate*.py",
    "integration/test_traces.py",
    "integration/test_base_model.py",
    "integration/test_targets_on_ray.py",
    "integration/test_training*.py",
]
if IN_TRAINING:
    tests = Path(__file__).parent
    collect_ignore = [
        str(file)
        for file in tests.rglob("test_*.py")
        if not any(fnmatch(file.relative_to(tests).as_posix(), pattern) for pattern in TRAINING)
    ]
else:
    collect_ignore_glob = TRAINING


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real traces, benchmarks and golden numbers beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside this checkout: the real traces and golden numbers are not here")
    return folder
