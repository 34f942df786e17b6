"""The function that scores answers to Reasoning Gym's tasks, for `grading.isolation.function_worker`.

The library is imported here, before the first call, because that takes seconds.
"""

import json
from importlib import import_module
from typing import Any

reasoning_gym: Any = import_module("reasoning_gym")  # an extra: it may be missing where types are checked


def score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any], *, task: str | None, entry: str
) -> float:
    """Return the task's score for an answer; ``entry`` names the field with the whole entry of its data set.

    Raises:
        ValueError: the row has no such entry, or no task is known by that name.
    """
    if entry not in extra_info:
        raise ValueError(f"the row has no field {entry!r} with the entry of the task")
    row = extra_info[entry]
    row = json.loads(row) if isinstance(row, str) else row
    name = task or row["metadata"]["source_dataset"]
    scorer = reasoning_gym.get_score_answer_fn(name)
    return float(scorer(solution_str, row))
