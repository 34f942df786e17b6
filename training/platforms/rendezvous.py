"""Binds torch's rendezvous store to loopback in a training on one node.

verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it. Every other port follows the address of the node, which `core.machine.loopback` sets.
"""

import importlib
import socket
from typing import Any

from core.machine.loopback import LOOPBACK

# The package has a function of the same name, so that ``from torch.distributed import rendezvous`` would yield that.
rendezvous = importlib.import_module("torch.distributed.rendezvous")


class AnnouncedStore(rendezvous.TCPStore):
    """torch's store, whose server on 127.0.0.1 listens there only; torch itself listens on every interface.

    The addresses of a cluster are left to torch.
    """

    def __init__(self, host_name: str, port: int, *, is_master: bool = False, **options: Any) -> None:
        if is_master and host_name == LOOPBACK:
            options["master_listen_fd"] = socket.create_server((host_name, port)).detach()
        super().__init__(host_name, port, is_master=is_master, **options)


rendezvous.TCPStore = AnnouncedStore  # pyright: ignore[reportAttributeAccessIssue]  of a module that is found by name
