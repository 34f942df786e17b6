"""``python -m pipelines.cli.execute``: execute one run of a job in a process of its own, for `pipelines.cli.run`.

It has a session of its own, so Ctrl-C at the terminal reaches the run as one request to cancel (`CANCEL`), and not
each of its processes at once; and it cancels the run when the process that started it ends, however that happens.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import dagster as dg

from core.cli import COUNT, Parser, exit_status
from core.errors import InputError
from core.machine.processes import die_with_parent
from core.text.parse import parse_object
from pipelines.definitions.code_location import defs
from pipelines.definitions.instance import CANCEL, owner_tag, prepare_home
from pipelines.definitions.jobs import JOBS


def job(name: str) -> dg.JobDefinition:
    """A job of the code location; each step of a run builds it again."""
    return defs.resolve_job_def(name)


def tags_of(text: str) -> dict[str, str]:
    """Tags of a run, given as a JSON object of texts."""
    values = parse_object(text, f"--tags {text!r:.80}")
    if not all(isinstance(value, str) for value in values.values()):
        raise InputError(f"--tags {text!r:.80}: expected an object whose values are texts")
    return values


def keys_of(names: Sequence[str], name: str) -> list[dg.AssetKey]:
    """The keys of assets of the job called ``name``."""
    keys = [dg.AssetKey.from_user_string(text) for text in names]
    if unknown := sorted(set(keys) - set(job(name).asset_layer.executable_asset_keys)):
        raise InputError(f"--assets {unknown[0].to_user_string()}: not an asset of job {name}; expected stage/name")
    return keys


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m pipelines.cli.execute", description="Execute one run of a job.")
    parser.add_argument("job", choices=[job.name for job in JOBS])
    parser.add_argument("--tags", default="{}", metavar="JSON", help="tags of the run, as JSON")
    parser.add_argument("--assets", nargs="*", metavar="KEY", help="materialize only these assets")
    parser.add_argument("--max-concurrent", type=COUNT, help="number of steps that run at the same time")
    options = parser.parse_args(arguments)
    given, keys = tags_of(options.tags), keys_of(options.assets or [], options.job)
    prepare_home()
    asked = threading.Event()
    signal.signal(CANCEL, lambda *_: asked.set())
    die_with_parent(os.getppid(), CANCEL)
    # The daemon retries crashed workers of code servers; this run belongs to a terminal, where a person sees its end.
    tags = {"dagster/max_retries": "0", **given, **owner_tag()}
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
            asset_selection=keys or None,
        )
    return 0 if result.success else 1


def _cancel_when(asked: threading.Event, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    """Once ``asked``, have Dagster stop the run as cancelled: without the first line it would count as failed."""
    asked.wait()
    for run in instance.get_runs(filters=dg.RunsFilter(tags=tags), limit=1):
        instance.report_run_canceling(run, message="Cancelled at the terminal, or the terminal went away.")
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(exit_status(main))
