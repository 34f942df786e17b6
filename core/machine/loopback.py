"""Make the services that a command starts on this machine listen on 127.0.0.1 only."""

import os

LOOPBACK = "127.0.0.1"

# For vLLM, gloo and NCCL in processes that have no peers on other machines.
SINGLE_NODE = {"VLLM_HOST_IP": LOOPBACK, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}

# Without "clusters", Ray takes 127.0.0.1 for the address of its node, on Linux too. Its own ports are bound there, and
# so are those of verl, TransferQueue and vLLM's server, which ask Ray for the address.
SINGLE_NODE_RAY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **SINGLE_NODE}


def single_node_environment() -> dict[str, str]:
    """Variables for a process that starts Ray, which reads them on import; none if RAY_ADDRESS names a cluster."""
    return {} if os.environ.get("RAY_ADDRESS") else SINGLE_NODE_RAY
