"""Load time of the code location beyond Dagster itself: ``.venv/bin/python -m perf.load``."""

import statistics
import subprocess
import sys

from core import PROJECT

CODE = """
import time
started = time.perf_counter()
import dagster
between = time.perf_counter()
import pipelines.definitions.code_location
print(between - started, time.perf_counter() - between)
"""


def main() -> None:
    runs = []
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", CODE], cwd=PROJECT, capture_output=True, text=True, check=True)
        runs.append([float(value) for value in done.stdout.split()])
    dagster, ours = (statistics.median(column) for column in zip(*runs, strict=True))
    sys.stdout.write(f"import dagster {dagster:.2f} s, the code location {ours:.2f} s more (target 0.30 s)\n")


if __name__ == "__main__":
    main()
