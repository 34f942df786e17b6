"""A real Slurm cluster of one node on this machine."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_port

MISSING = [name for name in ("slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name) is None]
NEEDS_SLURM = [
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed (Debian: slurm-wlm)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd runs jobs for other users, so it needs root"),
]


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[Path]:
    """A controller and a compute node that run here in ``folder``, without accounting; Slurm's commands use them."""
    host = socket.gethostname()
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
KillWait=15
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
    patched = pytest.MonkeyPatch()
    patched.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    daemons = []
    try:
        for daemon in ("slurmctld", "slurmd"):
            with (folder / f"{daemon}.log").open("wb") as log:
                daemons.append(subprocess.Popen([daemon, "-D"], stdout=log, stderr=log))
        deadline = time.monotonic() + 60
        while b"idle" not in subprocess.run(["sinfo"], capture_output=True, check=False).stdout:
            logs = "\n".join(file.read_text() for file in folder.glob("*.log"))
            assert all(daemon.poll() is None for daemon in daemons) and time.monotonic() < deadline, logs
            time.sleep(0.5)
        yield folder
    finally:
        subprocess.run(["scancel", "--user=root"], check=False)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(60)
        patched.undo()
