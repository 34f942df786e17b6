"""``python -m targets``, which is also ``luffy targets``: prepare targets without Dagster.

Without a command it prepares. The docstring of each command is its help; the work is imported when a command runs.
"""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli import examples, exit_status, new_app, refuse_options_before, run_app
from core.command_options import options_of, request_of
from core.machine.request_paths import check_output, writable_file
from targets.command_requests import PrepareRequest

app = new_app(
    "Turn raw traces into training targets: filter, verify and deduplicate them, and say why every other trace is "
    "rejected. Without a COMMAND, the options below start a preparation, which writes prepared, profile, rejected, "
    "train, heldout and left_out .parquet."
)
Prepared = Annotated[Path, typer.Argument(metavar="OUT", help="Folder of a preparation.")]


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "luffy targets --tokenizer training/embedded_model/model --out out --check",
        "luffy targets --source 'traces/*.parquet' --tokenizer models/policy --benchmarks paper --benchmark-root data "
        "--out out --check --docs out/docs",
        "luffy targets browse out --out page.html",
        "luffy targets browse out --out page.html --ledger runs/luffy",
        "luffy targets diff last-week out",
    ),
)
@options_of(PrepareRequest)
def prepare(context: typer.Context, **given: Any) -> int:
    """Turn raw traces into training targets."""
    if context.invoked_subcommand:
        refuse_options_before(context)
        return 0
    request = request_of(PrepareRequest, context, given)
    # SIGTERM unwinds the stack as Ctrl-C does, so that the workers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from targets.commands import prepare_targets

    return prepare_targets(request)


@app.command()
def browse(
    folder: Prepared,
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")],
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Folder of a training on these targets. Adds its verdict on each target."),
    ] = None,
) -> None:
    """Write all traces of a preparation, kept and rejected, to one HTML page that opens offline.

    Reviewers download their decisions from the page as review.csv, for `--set targets.review=review.csv`.
    """
    check_output(writable_file(out), folder)
    from targets.prepared_files import read_prepared
    from targets.trace_browser import browse

    typer.echo(f"{out}: {browse(read_prepared(folder), out, ledger):,} rows")


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="OLD", help="Folder of a preparation.")],
    now: Annotated[Path, typer.Argument(metavar="NEW", help="Folder of a later preparation.")],
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Compare two preparations: counts, lengths, rejections by filter and source, and added and removed rows."""
    from targets.check.version_diff import compare_folders
    from targets.commands import print_difference

    difference = compare_folders(before, now)
    if json:
        typer.echo(difference.to_json())
    else:
        print_difference(difference)


@app.command()
def push(
    folder: Prepared,
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="Dataset on the hub. It is created if it does not exist.")
    ],
    license: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="License as the hub names it, such as apache-2.0. Default: those of the sources."
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="If the repository does not exist, create a public one.")
    ] = False,
) -> None:
    """Upload train.parquet and heldout.parquet to the Hugging Face hub as a dataset with a card.

    Log in with `hf auth login`, or set HF_TOKEN.
    """
    from targets.hub.push import push

    typer.echo(f"{repository}: digest {push(folder, repository, license=license, public=public)}")


@app.command()
def pull(
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Dataset on the hub.")],
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to create.")],
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of the dataset. Default: the newest.")
    ] = None,
) -> None:
    """Download a training set that `push` uploaded, and check its digest."""
    from targets.hub.pull import pull

    typer.echo(f"{folder}/train.parquet: digest {pull(repository, folder, revision)}")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_app(app, sys.argv[1:] if arguments is None else arguments, "python -m targets")


if __name__ == "__main__":
    sys.exit(exit_status(main))
