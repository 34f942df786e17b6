"""Jobs: named selections of the graph."""

import dagster as dg

EVERYTHING = "everything"
OBSERVE = "observe_sources"
PREPARE = "prepare_targets"
SCORE = "score_policy"
EXPERIMENT = "experiment"
COMPARE = "compare_experiments"
RETAIN = "retention"
# Launched on their own.
REQUESTED_GROUPS, REQUESTED_KEY = ("experiments", "operations"), ["training", "checkpoints"]
ON_REQUEST = dg.AssetSelection.groups(*REQUESTED_GROUPS) | dg.AssetSelection.assets(REQUESTED_KEY)


def is_on_request(key: dg.AssetKey) -> bool:
    """Whether `everything` leaves the asset out; a group is the first part of a key."""
    return key.path[0] in REQUESTED_GROUPS or list(key.path) == REQUESTED_KEY


everything = dg.define_asset_job(
    EVERYTHING,
    selection=dg.AssetSelection.all() - ON_REQUEST,
    description="Everything: targets, gates, training, evals of base and policy, scorecard, champion. Unchanged "
    "results are reused.",
)
prepare_targets = dg.define_asset_job(
    PREPARE,
    selection=dg.AssetSelection.groups("models", "benchmarks", "targets"),
    description="Prepare the targets from the present traces and check them. If the sensor retrain_on_new_targets is "
    "on, it then starts a training.",
)
score_policy = dg.define_asset_job(
    SCORE,
    selection=dg.AssetSelection.groups("evals", "ood", "report", "registry"),
    description="Evaluate base and policy, write the scorecard and decide on the champion. Run it after a training.",
)
experiment = dg.define_asset_job(
    EXPERIMENT,
    selection=dg.AssetSelection.assets(["experiments", "policy"], ["experiments", "scores"]),
    description="Train and evaluate one recipe with one seed. Launch a backfill to compare several.",
)
compare_experiments = dg.define_asset_job(
    COMPARE,
    selection=dg.AssetSelection.assets(["experiments", "comparison"]),
    description="Write the page that compares the recipes.",
)
retention = dg.define_asset_job(
    RETAIN,
    selection=dg.AssetSelection.groups("operations"),
    description="List old outputs that nothing refers to. With dry_run: false, remove them.",
)
# An observation cannot share a job with materializations.
observe_sources = dg.define_asset_job(
    OBSERVE,
    selection=dg.AssetSelection.assets(["targets", "source"]),
    description="Record the digest and the number of rows of the raw traces, which show whether they have changed.",
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
