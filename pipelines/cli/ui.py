"""``luffy ui``: serve the Dagster UI with the project's instance."""

import errno
import os
import signal
import socket
import sys
from pathlib import Path

from assets.report import SCORECARD
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core.errors import InputError
from core.plugins.config_files import is_path
from core.settings import PROFILE, profile_name
from evaluation.report.scorecard.publish import PAGE
from pipelines.definitions.instance import prepare_home
from pipelines.settings import load


def serve(host: str, port: int, profile: str | None) -> None:
    """Replace this process by the server of the UI, after checking the settings and the port."""
    settings = load(profile)
    if name := profile or profile_name():  # the server and its code location start from a variable, as in a deployment
        os.environ[PROFILE] = str(Path(name).absolute()) if is_path(name) else name
    check_port(host, port)
    home = prepare_home(settings.storage.root)
    sys.stdout.write(f"Dagster UI: http://{host}:{port}  (instance {home})\n")
    if page := scorecard_page(Storage(root=settings.storage.root)):
        sys.stdout.write(f"scorecard: http://{host}:{port}{page}\n")
    sys.stdout.flush()
    # A shell starts background jobs with Ctrl-C ignored, and Dagster then ignores TERM too: nothing could stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = [sys.executable, "-P", "-m", "pipelines.cli.webserver", host, str(port)]
    # The shell is our parent: after `nohup luffy ui &` it may end, and the schedules go on.
    os.execv(
        sys.executable, [sys.executable, "-P", "-m", "core.backends.supervisor", "--outlive-parent", "--", *server]
    )


def scorecard_page(storage: Storage) -> str | None:
    """Return where the server has the last scorecard of the storage; None if there is none."""
    if not storage.reference_file(SCORECARD.to_user_string()).exists():
        return None
    reference = storage.read_reference(SCORECARD.to_user_string(), Reference)
    return storage.link(Path(reference.path) / PAGE).url


def check_port(host: str, port: int) -> None:
    """Raise InputError if something already listens at ``host:port`` or the port cannot be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                mend = "give an address of this machine, such as --host 127.0.0.1"
                raise InputError(f"--host {host}: {error.strerror}; {mend}") from error
            mend = (
                "stop the program that uses it, or choose another port"
                if error.errno == errno.EADDRINUSE
                else "choose another port"
            )
            raise InputError(f"port {port} of {host}: {error.strerror}; {mend}: `luffy ui --port 3001`") from error
