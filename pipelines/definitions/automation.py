"""When assets materialize by themselves."""

from typing import Any

import dagster as dg


def retrain_on_new_targets() -> dg.AutomationCondition[Any]:
    """Train again when the content of an input changed, its blocking checks passed and no input is under way.

    `AutomationCondition.eager` would also retrain after a materialization with identical data.
    """
    condition = dg.AutomationCondition
    return (
        condition.any_deps_match(condition.data_version_changed()).since_last_handled()
        & condition.all_deps_blocking_checks_passed()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("retrain_on_new_targets")
