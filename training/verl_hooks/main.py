"""The training process, ``python -m training.verl_hooks.main config.yaml``, which ``training.job.launch`` starts."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from training.platforms.preloaded import preloaded_interpreter

# What describes a cluster that is started; Ray rejects it when it joins a running one.
NEW_CLUSTER = ("num_cpus", "num_gpus", "include_dashboard", "object_store_memory")


def main() -> None:
    config = OmegaConf.load(Path(sys.argv[1]))
    assert isinstance(config, DictConfig)
    with ExitStack() as stack:
        with open_dict(config):
            if "RAY_ADDRESS" in os.environ:
                for name in NEW_CLUSTER:
                    config.ray_kwargs.ray_init.pop(name, None)
            elif "TRAINING_PRELOADS_WORKERS" in os.environ:
                interpreter = stack.enter_context(preloaded_interpreter())
                config.ray_kwargs.ray_init.runtime_env = {"py_executable": interpreter}
        from training.verl_hooks.task_runner import (
            run,  # its imports take seconds, in which the other process imports too
        )

        run(config)


if __name__ == "__main__":
    main()
