"""``python -m pipelines.cli.execute``: execute one run of a job in a process of its own, for `pipelines.cli.run`.

It has a session of its own, so Ctrl-C at the terminal reaches the run as one request to cancel (`CANCEL`), and not
each of its processes at once; and it cancels the run when the process that started it ends, however that happens.
"""

import argparse
import json
import os
import signal
import sys
import threading
from typing import Any

import dagster as dg

from core.cli import private_files
from core.processes import die_with_parent
from pipelines.definitions.code_location import defs
from pipelines.definitions.instance import CANCEL, owner_tag
from pipelines.definitions.jobs import JOBS


def job(name: str) -> dg.JobDefinition:
    """A job of the code location; each step of a run builds it again."""
    return defs.resolve_job_def(name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pipelines.cli.execute", description="Execute one run of a job.")
    parser.add_argument("job", choices=[job.name for job in JOBS])
    parser.add_argument("--tags", type=json.loads, default={}, metavar="JSON", help="tags of the run, as JSON")
    parser.add_argument("--assets", nargs="*", metavar="KEY", help="materialize only these assets")
    parser.add_argument("--max-concurrent", type=int, help="number of steps that run at the same time")
    options = parser.parse_args()
    private_files()
    asked = threading.Event()
    signal.signal(CANCEL, lambda *_: asked.set())
    die_with_parent(os.getppid(), CANCEL)
    # The daemon retries crashed workers of code servers; this run belongs to a terminal, where a person sees its end.
    tags = {"dagster/max_retries": "0", **options.tags, **owner_tag()}
    config: dict[str, Any] = {}
    if options.max_concurrent:
        config = {"execution": {"config": {"max_concurrent": options.max_concurrent}}}
    with dg.DagsterInstance.get() as instance:
        threading.Thread(target=_cancel_when, args=(asked, instance, owner_tag()), daemon=True).start()
        result = dg.execute_job(
            dg.build_reconstructable_job("pipelines.cli.execute", "job", (options.job,), {}),
            instance,
            run_config=config,
            tags=tags,
            asset_selection=[dg.AssetKey.from_user_string(key) for key in options.assets] if options.assets else None,
        )
    return 0 if result.success else 1


def _cancel_when(asked: threading.Event, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    """Once ``asked``, have Dagster stop the run as cancelled: without the first line it would count as failed."""
    asked.wait()
    for run in instance.get_runs(filters=dg.RunsFilter(tags=tags), limit=1):
        instance.report_run_canceling(run, message="Cancelled at the terminal, or the terminal went away.")
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
