"""Jobs: named selections of the graph."""

import dagster as dg

EVERYTHING = "everything"
OBSERVE = "observe_sources"

everything = dg.define_asset_job(
    EVERYTHING,
    selection=dg.AssetSelection.all(),
    description="The whole line: targets, gates, training, evals of base and policy, scorecard, champion. What has not "
    "changed is reused.",
)
# An observation cannot share a job with materializations.
observe_sources = dg.define_asset_job(
    OBSERVE,
    selection=dg.AssetSelection.assets(["targets", "source"]),
    description="Look whether the raw traces changed: digest and rows of their files or dataset.",
    executor_def=dg.in_process_executor,  # it is one short step
)
