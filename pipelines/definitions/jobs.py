"""Jobs: named selections of the graph."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from assets.shared.luffy import Names
from evaluation.benchmarks.suite import GROUPS

Job = Any  # what `dg.define_asset_job` returns: Dagster exports no name of its class
EVERYTHING = "everything"
OBSERVE = "observe_sources"
PREPARE = "prepare_targets"
TRAIN = "train_policy"
SCORE = "score_policy"
RETAIN = "retention"
# Launched on their own.
REQUESTED_GROUP, REQUESTED_KEY = "operations", ["training", "checkpoints"]
SOURCE = ["targets", "source"]
DESCRIPTIONS = {
    EVERYTHING: "Everything: targets, gates, training, evals of base and policy, scorecard, champion. Unchanged "
    "results are reused.",
    PREPARE: "Prepare the targets from the present traces and check them. If the sensor retrain_on_new_targets is "
    "on, it then starts a training.",
    TRAIN: "Train a policy on the present targets, and show what it used of them. It is refused unless the targets "
    "have passed their checks. Run it after a preparation.",
    SCORE: "Evaluate base and policy, write the scorecard and decide on the champion. Run it after a training.",
    RETAIN: "List old outputs that nothing refers to. With dry_run: false, remove them.",
    OBSERVE: "Record the digest and the number of rows of the raw traces, which show whether they have changed.",
}


def is_on_request(key: dg.AssetKey) -> bool:
    """Return whether `everything` leaves the asset out; a group is the first part of a key."""
    return key.path[0] == REQUESTED_GROUP or list(key.path) == REQUESTED_KEY


def in_groups(names: Names, keys: Sequence[dg.AssetKey], *groups: str) -> dg.AssetSelection:
    """Select the ``keys`` that are in ``groups``, with their checks."""
    return dg.AssetSelection.assets(*(names.key(key) for key in keys if key.path[0] in groups))


def build_jobs(names: Names, keys: Sequence[dg.AssetKey]) -> dict[str, Job]:
    """Build all jobs, by their names without prefix.

    Args:
        names: Names of assets and jobs.
        keys: The assets that can be materialized, without prefix.
    """
    weekly = [key for key in keys if not is_on_request(key)]
    selections = {
        EVERYTHING: dg.AssetSelection.assets(*map(names.key, weekly)),
        PREPARE: in_groups(names, keys, "models", "benchmarks", "targets"),
        TRAIN: in_groups(names, weekly, "training"),
        SCORE: in_groups(names, keys, *GROUPS, "report", "registry"),
        RETAIN: in_groups(names, keys, "operations"),
    }
    jobs = {
        job: dg.define_asset_job(names.name(job), selection=selection, description=DESCRIPTIONS[job])
        for job, selection in selections.items()
    }
    # An observation cannot share a job with materializations.
    observe = dg.define_asset_job(
        names.name(OBSERVE),
        selection=_assets(names, SOURCE),
        description=DESCRIPTIONS[OBSERVE],
    )
    return {**jobs, OBSERVE: observe}


def _assets(names: Names, *keys: list[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(names.key(dg.AssetKey(key)) for key in keys))
