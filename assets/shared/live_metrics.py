"""The steps of a training while it runs: log lines, and observations of the asset training/metrics, its live curves."""

import math
from collections.abc import Mapping
from typing import Any

import dagster as dg

from core.metric_table import live_values

METRICS = dg.AssetKey(["training", "metrics"])
POINTS = 80  # the UI keeps about 100 observations
METRICS_SPEC = dg.AssetSpec(
    METRICS,
    deps=[dg.AssetKey(["training", "policy"])],
    group_name="training",
    kinds={"verl"},
    description="Step metrics of a training while it runs: rewards, lengths, losses, timings. Each run records about "
    f"{POINTS} points; the full curves are in the policy's metadata and in metrics.jsonl.",
)
ALERT = "alert"  # entry of an observation of the metrics: what goes wrong


class StepObserver:
    """Turn the events of a training into log lines, and at most `POINTS` of its steps into observations."""

    def __init__(self, context: dg.AssetExecutionContext, metrics: dg.AssetKey = METRICS) -> None:
        self._context = context
        self._metrics = metrics
        self.policy: str | None = None
        self.reused = False

    def __call__(self, event: Mapping[str, Any]) -> None:
        log = self._context.log.warning if event["event"] == "alert" else self._context.log.info
        match event["event"]:
            case "done":
                self.policy, self.reused = event["policy"], event["reused"]
                return
            case "step" if observed(event["step"], event["total"]):
                self._observe({"step": event["step"], **live_values(event["metrics"])})
            case "alert":
                self._observe({"step": event["step"], ALERT: event["message"]})
        log(event["message"])

    def _observe(self, metadata: Mapping[str, Any]) -> None:
        self._context.log_event(dg.AssetObservation(self._metrics, metadata=metadata))


def observed(step: int, total: int) -> bool:
    """Return whether ``step`` of ``total`` is one of the `POINTS` that are spread over the training."""
    return step in (1, total) or step % math.ceil(total / (POINTS - 2)) == 0
