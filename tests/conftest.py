"""Fixtures of every test level."""

import importlib.util
import json
import os
import signal
from fnmatch import fnmatch
from pathlib import Path

from hypothesis import settings

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
    "research/test_base_model.py",
    "unit/training/*",
    "components/training/*",
    "integration/test_evaluation_ray.py",
    "integration/test_generate*.py",
    "integration/test_judge_by_endpoint.py",
    "integration/test_traces.py",
    "integration/test_targets_on_ray.py",
    "integration/test_training*.py",
]
IN_BOTH = ["unit/test_doctests.py"]
if IN_TRAINING:
    tests = Path(__file__).parent
    collect_ignore = [
        str(file)
        for file in tests.rglob("test_*.py")
        if not any(fnmatch(file.relative_to(tests).as_posix(), pattern) for pattern in (*TRAINING, *IN_BOTH))
    ]
else:
    collect_ignore_glob = TRAINING


def pytest_terminal_summary(terminalreporter) -> None:
    """Add this run's counts to the file that `make test` sums up at its end."""
    file = os.environ.get("LUFFY_TEST_COUNTS")
    if not file or hasattr(terminalreporter.config, "workerinput"):  # a worker of xdist, whose tests its parent counts
        return
    reports = terminalreporter.stats
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in reports.get("skipped", [])]
    counts = {
        "passed": len(reports.get("passed", [])),
        "failed": len(reports.get("failed", [])) + len(reports.get("error", [])),
        "skipped": reasons,
    }
    with open(file, "a", encoding="utf-8") as counts_file:
        counts_file.write(json.dumps(counts) + "\n")
