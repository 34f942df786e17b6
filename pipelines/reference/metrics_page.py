"""Generate the page of the metrics of a training."""

from core.metric_table import METRICS, Metric, View
from pipelines.reference.page_markdown import code, page, table

PLACES = {
    View.POLICY: "policy",
    View.CHAMPION: "against the champion",
    View.RECIPES: "comparisons",
    View.TERMINAL: "terminal",
}


def metrics_page() -> str:
    """Generate the page with every metric, its plots, and the warning that watches it."""
    return page(
        "Metrics",
        "What a training logs at each step. `metrics.jsonl` in the folder of the run and the trackers have all of it. "
        "A live metric is also an observation of `training/metrics` in the Dagster UI while the training runs. Charts "
        "are drawn on the page of `training/policy` (policy, against the champion), on the pages that compare recipes "
        "and in the scorecard (comparisons), and on the terminal. [Warnings](../training.md#warnings) explains the "
        "keys of `run.alerts`. A name with `*` stands for all that begin like it.",
        table(("metric", "what it is", "unit", "better", "live", "charts", "warning"), map(_row, METRICS)),
    )


def _row(metric: Metric) -> tuple[str, ...]:
    return (
        code(metric.name),
        metric.label.format("`*`").replace("|", r"\|"),
        metric.unit,
        metric.better,
        "yes" if metric.live else "",
        ", ".join(place for view, place in PLACES.items() if view in metric.views),
        code(metric.alert) if metric.alert else "",
    )
