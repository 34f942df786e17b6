"""``python -m training examine``: the tests that need no training, on some prompts of a training."""

import sys
from collections import defaultdict
from pathlib import Path

from core.parquet import read_table
from core.schemas import SAMPLE
from training.explain.before import examine as examine_targets
from training.explain.causes import early_causes
from training.explain.sampled_rows import sample_rows
from training.job.configuration import compose_run
from training.job.request import TrainingRequest


def examine(file: Path, samples: Path | None) -> int:
    """Test the training of the request in ``file``, and print a line for each test; the exit status: 1 if one fails.

    Raises:
        InputError: the training could not start.
    """
    request = TrainingRequest.read(file).complete()
    config = compose_run(request.recipe, request.hardware, request.config_overrides(), run=request.out)
    drawn = None if samples is None else _drawn(samples, request.targets.path)
    found = {one.cause.name: one for one in examine_targets(config, request.targets.path, request.model.path, drawn)}
    count = len(sample_rows(request.targets.path))
    sys.stdout.write(
        f"{count} prompts of {request.targets.path.name}{' with answers of the base model' if drawn else ''}\n"
    )
    for cause in early_causes():
        if finding := found.get(cause.name):
            line = f"FAIL  {cause.title}: {finding.evidence.text}: change {cause.keys}; see {cause.link}"
        else:
            line = f"ok    {cause.name}: not seen"
        sys.stdout.write(f"{line}\n")
    return int(bool(found))


def _drawn(samples: Path, targets: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the responses in a file of `SAMPLE` and their tokens, by problem."""
    problems = [row["prompt"][-1]["content"] for row in sample_rows(targets)]
    drawn: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in read_table(samples, SAMPLE, "give a file of `luffy evaluate generate`").to_pylist():
        drawn[problems[int(row["id"])]].append((row["response"], row["tokens"]))
    return dict(drawn)
