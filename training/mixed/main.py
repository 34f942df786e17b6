"""The training process, ``python -m training.mixed.main config.yaml``, which ``training.run.job`` starts."""

import os
import sys
from pathlib import Path

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

# What describes a cluster that is started; Ray rejects it when it joins a running one.
NEW_CLUSTER = ("num_cpus", "num_gpus", "include_dashboard", "object_store_memory")


@ray.remote
class TaskRunner(TaskRunnerV1.__ray_metadata__.modified_class):
    """verl's task runner in a process in which our trainers are registered."""

    def run(self, config: DictConfig) -> None:
        import training.mixed.asynchronous.trainers  # noqa: F401  registers the trainers "mixed_MODE"

        super().run(config)


def main() -> None:
    config = OmegaConf.load(Path(sys.argv[1]))
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    if "RAY_ADDRESS" in os.environ:
        with open_dict(config):
            for name in NEW_CLUSTER:
                config.ray_kwargs.ray_init.pop(name, None)
    if config.objective == "sft":
        from training.mixed.supervised import SupervisedRunner

        run_ppo(config, task_runner_class=SupervisedRunner)
    else:
        run_ppo(config, task_runner_class=TaskRunner)


if __name__ == "__main__":
    main()
