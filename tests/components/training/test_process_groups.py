"""The timeout of torch's process groups, which verl leaves at torch's default."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.plugins.config_files import HARDWARE, config_names
from training.config.to_verl import compose_run
from training.platforms.quirks import TIMEOUT

ROOT = Path(__file__).resolve().parents[3]
# The group of all ranks as verl's workers open it, and one of a part of them as FSDP's device meshes do.
GROUPS = """
import socket
from datetime import timedelta
import torch.distributed as dist
import verl
from verl.utils.distributed import initialize_global_process_group_ray
with socket.create_server(("127.0.0.1", 0)) as probe:
    port = probe.getsockname()[1]
import os
os.environ |= {"DIST_INIT_METHOD": f"tcp://127.0.0.1:{port}", "RANK": "0", "WORLD_SIZE": "1"}
initialize_global_process_group_ray(timeout_second=None)
part = dist.new_group([0])
for group in (dist.group.WORLD, part):
    print("seconds", group._get_backend(__import__("torch").device("cpu")).options._timeout.total_seconds())
"""


def test_every_group_has_the_timeout_of_the_configuration() -> None:
    modules = "training.platforms.every_process"
    environment = os.environ | {"VERL_USE_EXTERNAL_MODULES": modules, TIMEOUT: "4321", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", GROUPS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("seconds 4321.0") == 2, done.stdout


@pytest.mark.parametrize("hardware", config_names(HARDWARE))
def test_every_profile_hands_the_key_to_the_processes(hardware: str) -> None:
    config = compose_run("luffy", hardware, ["actor_rollout_ref.nccl_timeout=77"], run=Path("run"))
    assert config.environment[TIMEOUT] == 77
    assert config.environment.VERL_USE_EXTERNAL_MODULES == "training.platforms.every_process"
