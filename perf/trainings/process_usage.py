"""Measure the CPU time and memory of a training's processes while it runs, second by second."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from perf.trainings.rollouts import step_seconds

ACTOR = "ray::WorkerDict"  # title of its processes
SIZES_EVERY = 10  # samples: the kernel takes most of a second to add up the memory of all processes


class Sample(NamedTuple):
    """The resources that a training's processes have used after a number of steps, by title."""

    step: int
    cpu_seconds: Mapping[str, float]  # of those that have ended, too
    sizes: Mapping[str, float]  # MiB, by `proportional_sizes`


@contextmanager
def watch(run: Path, *, sizes: bool = True) -> Iterator[list[Sample]]:
    """Yield a list that gains a `Sample` of the training in ``run`` each second; every tenth has new ``sizes``."""
    samples: list[Sample] = []
    seconds: dict[psutil.Process, tuple[str, float]] = {}
    ended = threading.Event()
    metrics = run / "attempts" / "0001.jsonl"

    def sample() -> None:
        latest: Mapping[str, float] = {}
        while not ended.wait(1.0):
            step = len(metrics.read_bytes().splitlines()) if metrics.exists() else 0
            for process in psutil.Process().children(recursive=True):
                try:
                    times = process.cpu_times()
                    seconds[process] = title(process), times.user + times.system
                except psutil.Error:
                    continue  # it ended while we looked
            totals = defaultdict[str, float](float)
            for name, used in seconds.values():
                totals[name] += used
            if sizes and len(samples) % SIZES_EVERY == 0:
                latest = proportional_sizes(psutil.Process())
            samples.append(Sample(step, totals, latest))

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        yield samples
    finally:
        ended.set()
        watcher.join()


def proportional_sizes(parent: psutil.Process) -> Mapping[str, float]:
    """MiB of the processes below ``parent`` by their title, and of the memory that they share."""
    totals = defaultdict[str, float](float)
    for process in parent.children(recursive=True):
        try:
            fields = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
            name = title(process)
        except (psutil.Error, OSError):
            continue  # it ended while we looked
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in fields}
        totals["shared memory of all"] += sizes["Pss_Shmem"]
        totals[name] += sizes["Pss"] - sizes["Pss_Shmem"]
    return totals


def slowdown(samples: Sequence[Sample], records: Sequence[Mapping[str, float]]) -> float:
    """Return the factor by which actor and vLLM slow each other: the processors that both want, over those available.

    Args:
        samples: of a synchronous run.
        records: the metrics of the run's steps 3 and later.
    """
    # The metrics of a step are written when it has ended: after two of them, the third has begun.
    steps = [sample.cpu_seconds for sample in samples if 2 <= sample.step < 2 + len(records)]
    used = {name: total - steps[0].get(name, 0.0) for name, total in steps[-1].items()}
    seconds = len(steps) - 1  # one sample per second
    share = sum(record["timing_s/gen"] for record in records) / sum(step_seconds(record) for record in records)
    actor = used[ACTOR]
    wanted = actor / ((1 - share) * seconds) + (sum(used.values()) - actor) / (share * seconds)
    return max(1.0, wanted / len(os.sched_getaffinity(0)))


def title(process: psutil.Process) -> str:
    """Return the name of a process without its path, the arguments and the method that Ray adds."""
    return (process.cmdline() or [process.name()])[0].rsplit("/", 1)[-1].split(" ")[0].split(".")[0]
