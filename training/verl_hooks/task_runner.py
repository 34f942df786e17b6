"""Run a configuration with verl and this project's trainers."""

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config


@ray.remote
class TaskRunner(TaskRunnerV1.__ray_metadata__.modified_class):  # pyright: ignore[reportAttributeAccessIssue]  Ray's
    """verl's task runner in a process that registers this project's trainers."""

    def run(self, config: DictConfig) -> None:
        import training.verl_hooks.asynchronous.trainers  # noqa: F401  registers the trainers "mixed_MODE"

        super().run(config)


def run(config: DictConfig) -> None:
    """Run ``config`` to its end, in a new Ray cluster or the one of ``RAY_ADDRESS``."""
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    if config.objective == "sft":
        from training.verl_hooks.supervised import SupervisedRunner

        run_ppo(config, task_runner_class=SupervisedRunner)
    else:
        run_ppo(config, task_runner_class=TaskRunner)
