"""``python -m pipelines.cli.ui``: serve the Dagster UI with the project's instance; ``make ui`` calls it."""

import os
import signal
import socket
import sys

from core.cli import PORT, Parser, exit_status
from core.code_digest import PROJECT
from core.errors import InputError
from pipelines.cli.run import configure
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.settings import load_settings


def main(arguments: list[str] | None = None) -> None:
    parser = Parser(prog="python -m pipelines.cli.ui", description="Serve the Dagster UI until Ctrl-C.")
    parser.add_argument("--port", type=PORT, default=3000, help="port of the UI (default %(default)s)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; keep it local, as the UI has no login (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    configure(None, [])
    load_settings()
    check_port(options.host, options.port)
    home = prepare_home()
    sys.stdout.write(f"Dagster UI: http://{options.host}:{options.port}  (instance {home})\n")
    sys.stdout.flush()
    os.chdir(PROJECT)
    # A shell starts background jobs with Ctrl-C ignored, and Dagster then ignores TERM too: nothing could stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve = [sys.executable, "-m", "pipelines.cli.webserver", "--host", options.host, "--port", str(options.port)]
    os.execv(sys.executable, [sys.executable, "-m", "core.backends.supervisor", "--", *serve])


def check_port(host: str, port: int) -> None:
    """InputError if something listens at ``host:port`` already or the port cannot be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InputError(
                f"port {port} of {host}: {getattr(error, 'strerror', error)}; stop the program that uses it, or choose "
                "another port: `make ui PORT=3001`"
            ) from error


if __name__ == "__main__":
    sys.exit(exit_status(main))
