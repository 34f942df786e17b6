"""Jobs: named selections of the graph."""

import dagster as dg

EVERYTHING = "everything"
OBSERVE = "observe_sources"
PREPARE = "prepare_targets"
SCORE = "score_policy"
EXPERIMENT = "experiment"
COMPARE = "compare_experiments"
RETAIN = "retention"
APART = dg.AssetSelection.groups("experiments", "operations")  # what is launched for itself

everything = dg.define_asset_job(
    EVERYTHING,
    selection=dg.AssetSelection.all() - APART,
    description="The whole line: targets, gates, training, evals of base and policy, scorecard, champion. What has not "
    "changed is reused.",
)
prepare_targets = dg.define_asset_job(
    PREPARE,
    selection=dg.AssetSelection.groups("models", "benchmarks", "targets"),
    description="Targets with their checks from the traces as they are now. A training follows by itself where "
    "retrain_on_new_targets is on.",
)
score_policy = dg.define_asset_job(
    SCORE,
    selection=dg.AssetSelection.groups("evals", "ood", "report", "registry"),
    description="Evals of base and policy, scorecard, champion: what follows a training.",
)
experiment = dg.define_asset_job(
    EXPERIMENT,
    selection=dg.AssetSelection.assets(["experiments", "policy"], ["experiments", "scores"]),
    description="Train one recipe and score it; launch a backfill to compare several.",
)
compare_experiments = dg.define_asset_job(
    COMPARE,
    selection=dg.AssetSelection.assets(["experiments", "comparison"]),
    description="The page that compares the recipes.",
)
retention = dg.define_asset_job(
    RETAIN,
    selection=dg.AssetSelection.groups("operations"),
    description="What old outputs could go; with dry_run: false they go.",
)
# An observation cannot share a job with materializations.
observe_sources = dg.define_asset_job(
    OBSERVE,
    selection=dg.AssetSelection.assets(["targets", "source"]),
    description="Look whether the raw traces changed: digest and rows of their files or dataset.",
    executor_def=dg.in_process_executor,  # it is one short step
)

JOBS = [
    everything,
    observe_sources,
    prepare_targets,
    score_policy,
    experiment,
    compare_experiments,
    retention,
]
