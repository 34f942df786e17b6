"""How the processes of a training reach each other, where verl and torch leave it to chance.

torch's rendezvous store listens on every interface. verl 0.9.1 reads ``actor_rollout_ref.nccl_timeout`` nowhere, so its
process groups wait as long as torch does by default: 10 minutes with NCCL. Ranks that write to a slow disk can be
further apart than that when a checkpoint is saved, and NCCL then ends the training. verl names the sockets by which
weights reach vLLM after the Ray job, in a folder that all trainings of a machine share, and the first job of every
cluster has the same id.

verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it; the profile also puts the timeout into the environment. Every other port follows the address of the node, which
`core.machine.loopback` sets.
"""

import importlib
import os
import socket
from datetime import timedelta
from typing import Any

from ray.runtime_context import RuntimeContext
from torch.distributed import distributed_c10d

from core.machine.loopback import LOOPBACK

TIMEOUT = "TRAINING_PROCESS_GROUP_SECONDS"
# The package has a function of the same name, so that ``from torch.distributed import rendezvous`` would yield that.
rendezvous = importlib.import_module("torch.distributed.rendezvous")
_job_id = RuntimeContext.get_job_id


class AnnouncedStore(rendezvous.TCPStore):
    """torch's store, whose server on 127.0.0.1 listens there only; torch itself listens on every interface.

    The addresses of a cluster are left to torch.
    """

    def __init__(self, host_name: str, port: int, *, is_master: bool = False, **options: Any) -> None:
        if is_master and host_name == LOOPBACK:
            options["master_listen_fd"] = socket.create_server((host_name, port)).detach()
        super().__init__(host_name, port, is_master=is_master, **options)


def timeout_of_this_job(backend: Any = None) -> timedelta:
    """Return the timeout of a group for which no caller names one, whatever its backend."""
    return timedelta(seconds=int(os.environ[TIMEOUT]))


rendezvous.TCPStore = AnnouncedStore  # pyright: ignore[reportAttributeAccessIssue]  of a module that is found by name
if TIMEOUT in os.environ:
    distributed_c10d._get_default_timeout = timeout_of_this_job
RuntimeContext.get_job_id = lambda self: f"{_job_id(self)}-{self.gcs_address.rpartition(':')[2]}"  # the cluster's port
