"""The training process, ``python -m training.verl_hooks.main config.yaml``, which ``training.launch`` starts."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from training.platforms.preloaded import INTERPRETER, preloaded_interpreter, recorded

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
                OmegaConf.update(config, INTERPRETER, interpreter, force_add=True)
        run(config)


def run(config: DictConfig) -> None:
    """Run ``config`` to its end, in a new Ray cluster or the one of ``RAY_ADDRESS``."""
    # Imported here: it takes seconds, in which the preloaded interpreter imports too.
    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    run_ppo(config, task_runner_class=task_runner(config.objective))


def task_runner(objective: str) -> Any:
    """Return the class of Ray's actor in which the loop of a training runs."""
    if objective == "sft":
        from training.verl_hooks.supervised import SupervisedRunner

        return SupervisedRunner
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1

    base: Any = TaskRunnerV1

    @ray.remote
    class TaskRunner(base.__ray_metadata__.modified_class):
        """verl's task runner in a process that registers this project's trainers."""

        def run(self, config: DictConfig) -> None:
            import training.verl_hooks.asynchronous.trainers  # noqa: F401  registers the trainers "mixed_MODE"

            super().run(recorded(config))

    return TaskRunner


if __name__ == "__main__":
    main()
