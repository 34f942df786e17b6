"""Optional capabilities of a training (predict, estimate cost, find faults, publish), each imported when it is called.

Nothing on the way from the traces to the champion imports these modules, so none of them can break it or slow its
start. To add one, write it and add its line.
"""

from collections.abc import Callable, Mapping
from typing import Any

from core.plugins.user_code import load_function

EXTENSIONS: Mapping[str, str] = {
    "predict": "training.resources.roofline:predict",
    "pace": "training.cost.estimate:throughput_of",
    "cost_plan": "training.cost.estimate:cost_plan",
    "cost_figures": "training.cost.estimate:cost_figures",
    "figures": "training.resources.prediction_summary:figures",
    "figures_table": "training.resources.prediction_summary:table",
    "warn_before": "training.explain.before:warn_before",
    "first_look": "training.explain.before:first_look",
    "open_runs": "training.job.trackers:open_runs",
    "publish": "training.job.trackers:publish",
    "push_to_hub": "training.export.upload:push_to_hub",
}


def extension(name: str) -> Callable[..., Any]:
    """Return the function of a row of `EXTENSIONS`."""
    return load_function(EXTENSIONS[name])
