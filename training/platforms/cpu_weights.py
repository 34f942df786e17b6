"""Sends weights to rollout servers of their own without an accelerator: verl's checkpoint engine "cpu", over TCP.

verl imports this module where ``rollout.checkpoint_engine.custom_backend_module`` names it.
"""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import ray
import torch
import zmq
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("cpu")  # pyright: ignore[reportAttributeAccessIssue]  a function of the class
class CPUCheckpointEngine(CheckpointEngine):
    """The first rank of the actor pushes every tensor to every rollout worker; each listens at an address of its own.

    A message is a JSON header (name, type, shape) and the bytes of the tensor; an empty header ends the weights.
    """

    def __init__(self, bucket_size: int, is_master: bool | None = None) -> None:
        self.of_actor, self.sends = is_master is not None, bool(is_master)
        self.sockets: list[zmq.Socket[bytes]] = []
        self.address: str | None = None

    def prepare(self) -> dict[str, Any]:
        if not self.of_actor and self.address is None:
            listener, host = zmq.Context.instance().socket(zmq.PULL), ray.util.get_node_ip_address()
            self.address = f"tcp://{host}:{listener.bind_to_random_port(f'tcp://{host}')}"
            self.sockets = [listener]
        return {"address": self.address}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        addresses = [worker["address"] for worker in metadata[actor_wg_world_size:]]
        return {"addresses": [addresses] * actor_wg_world_size}, {"addresses": [addresses] * rollout_world_size}

    def init_process_group(self, **topology: Any) -> None:
        if self.sends and not self.sockets:
            for address in topology["addresses"]:
                sender = zmq.Context.instance().socket(zmq.PUSH)
                sender.connect(address)
                self.sockets.append(sender)

    def finalize(self) -> None:
        """The connections stay for the next weights."""

    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, float]:
        for name, weight in weights:  # on every rank, because gathering a weight needs all of them
            if self.sends:
                plain = weight.detach().contiguous()
                data = plain.view(-1).view(torch.uint8).numpy().data
                header = {"name": name, "dtype": str(plain.dtype).removeprefix("torch."), "shape": plain.shape}
                for sender in self.sockets:
                    sender.send_json(header, zmq.SNDMORE)
                    sender.send(data)
        for sender in self.sockets if self.sends else []:
            sender.send_json({})
        return {}

    async def receive_weights(  # pyright: ignore[reportIncompatibleMethodOverride]  verl declares no asynchronous one
        self, global_steps: int | None = None
    ) -> AsyncIterator[tuple[str, torch.Tensor]]:
        (listener,) = self.sockets
        while header := json.loads(listener.recv()):
            data = torch.frombuffer(bytearray(listener.recv()), dtype=torch.uint8)
            yield header["name"], data.view(getattr(torch, header["dtype"])).view(header["shape"])
