"""``python -m training browse`` writes the samples of a run, step by step, on one page for people."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.browser.page import Page, Row, write_page
from core.errors import InputError
from training.job.records import rollout_log
from training.job.run_folder import RunFolder

FACETS = ("reward", "step", "head")


def browse(run: Path, out: Path) -> None:
    """Write the samples of ``run`` on the page ``out``.

    Raises:
        InputError: the folder has no samples, or a file of them is damaged.
    """
    folder = RunFolder(run).rollouts
    steps = rollout_log.steps(folder)
    if not steps:
        raise InputError(f"--run {run}: no samples in it: give the folder of a training run with rollouts")
    count = sum(len(rollout_log.read(folder, step)) for step in steps)
    summary = {"run": run.resolve().name, "steps": f"{steps[0]} to {steps[-1]}"}
    rows = write_page(Page("Rollouts", FACETS, summary), _rows(folder, steps), count, out)
    sys.stdout.write(f"{out}: {rows:,} rows\n")


def _rows(folder: Path, steps: Sequence[int]) -> Iterator[Row]:
    for step in steps:
        for number, sample in enumerate(rollout_log.read(folder, step)):
            yield Row(
                id=f"{step}/{number}",
                facets=(f"{sample.reward:g}", str(step), "off-policy" if sample.prefix_length else "on-policy"),
                problem=sample.prompt,
                gold=sample.gold,
                response=sample.response,
                length=len(sample.response),
                notes={"off-policy tokens": f"{sample.prefix_length:,}" if sample.prefix_length else ""},
            )
