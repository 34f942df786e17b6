"""``python -m pipelines.experiments [RECIPE …]``: train and score recipes, then compare them on one page.

What ``make experiments`` calls: a run a recipe, one after the other, recorded in the instance that ``make ui`` shows. A
backfill of experiments/policy and experiments/scores in the UI does the same.
"""

import argparse
import os
import sys

import dagster as dg

from assets.identity import PROJECT
from evaluation.command import INTERRUPTED, exit_status
from evaluation.errors import InputError
from pipelines.follow import Terminal
from pipelines.home import end_dead_runs, prepare_home
from pipelines.jobs import COMPARE, EXPERIMENT, OBSERVE, PREPARE
from pipelines.run import configure, execute, training_interpreter


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.experiments", description="Train and score recipes, and compare them on one page."
    )
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="files of training/config/recipe (default: all)")
    parser.add_argument("--profile", help="a profile's name or file")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="overrides")
    options = parser.parse_args()
    configure(options.profile, options.overrides)
    os.chdir(PROJECT)
    prepare_home()
    from assets.experiments import COMPARISON, PAGE, RECIPES
    from pipelines.definitions import defs

    recipes = options.recipes or RECIPES
    if unknown := sorted(set(recipes) - set(RECIPES)):
        raise InputError(f"no recipe {', '.join(unknown)}: expected some of {', '.join(RECIPES)}")
    training_interpreter(defs).executable()
    terminal, failed = Terminal(), 0
    with dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        for job in (OBSERVE, PREPARE):
            if status := execute(instance, job, terminal):
                return status
        for recipe in dict.fromkeys(recipes):
            terminal.line(f"recipe {recipe}")
            status = execute(instance, EXPERIMENT, terminal, more_tags={"dagster/partition": recipe})
            if status == INTERRUPTED:
                return status
            failed += status != 0
        if status := execute(instance, COMPARE, terminal):
            return status
    assert defs.resources is not None
    folder = defs.resources["storage"].read_reference(COMPARISON.to_user_string()).path
    terminal.line(f"\ncomparison: {folder}/{PAGE}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
