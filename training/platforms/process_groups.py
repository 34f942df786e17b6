"""Gives every process group of torch the timeout that ``actor_rollout_ref.nccl_timeout`` says.

verl 0.9.1 reads that key nowhere, so its groups wait as long as torch does by default: 10 minutes with NCCL. Ranks that
write to a slow disk can be further apart than that when a checkpoint is saved, and NCCL then ends the training.
verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it; the profile also puts the value into the environment.
"""

import os
from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d

TIMEOUT = "TRAINING_PROCESS_GROUP_SECONDS"


def timeout_of_this_job(backend: Any = None) -> timedelta:
    """Return the timeout of a group for which no caller names one, whatever its backend."""
    return timedelta(seconds=int(os.environ[TIMEOUT]))


if TIMEOUT in os.environ:
    distributed_c10d._get_default_timeout = timeout_of_this_job
