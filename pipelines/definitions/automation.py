"""Automation conditions: when assets materialize without a request."""

from typing import Any

import dagster as dg


def retrain_on_new_targets() -> dg.AutomationCondition[Any]:
    """Train when an input's content has changed, its blocking checks pass, and no input is in progress.

    `AutomationCondition.eager` would also retrain after a materialization with identical data.
    """
    condition = dg.AutomationCondition
    return (
        condition.any_deps_match(condition.data_version_changed()).since_last_handled()
        & condition.all_deps_blocking_checks_passed()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("retrain_on_new_targets")
