"""Supervised fine-tuning on the targets by verl's training workers: recipe ``sft``, no rollouts, no vLLM.

The configuration, checkpoints, metrics and policy are as in every other run: the sections ``actor`` and ``model``
say how the workers train.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import ray
import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import PreTrainedTokenizerBase
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.trainer.ppo.utils import create_rl_sampler
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.dataset_utils import DatasetPadMode, SFTTensorCollator
from verl.utils.debug import marked_timer
from verl.utils.tracking import Tracking
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker

from core.errors import InputError
from core.ledger_verdicts import LEDGER
from core.model.episodes import encode_episode
from core.model.prompts import CHAT, Template
from training.algorithms.derived_seeds import target_ids
from training.config.method_keys import of_run
from training.config.to_verl import chat_template
from training.job.checkpoints import Completer, folder_of, latest_step
from training.job.records.metrics_log import require_finite
from training.methods import method_path
from training.platforms.preloaded import recorded
from training.resources.requirements import require_disk
from training.verl_hooks.loss import supervised_loss
from training.verl_hooks.target_uses import Ledger, row_uses

DATA = "data.pt"


class TargetDataset(Dataset[dict[str, torch.Tensor]]):
    """Prompt and target of each row, tokenized as an off-policy sample of a mixed-policy run is.

    ``targets`` are the ids and sources of the rows.

    Raises:
        InputError: a row has no target.
    """

    def __init__(
        self, path: Path | str | list[str], tokenizer: PreTrainedTokenizerBase, template: Template = CHAT
    ) -> None:
        table = pq.read_table(path, columns=["prompt", "target", "extra_info", "data_source"])
        self._rows = table.select(["prompt", "target"])
        self.targets = list(zip(target_ids(table), table["data_source"].to_pylist(), strict=True))
        self._tokenizer, self._template = tokenizer, template
        for row, target in enumerate(self._rows["target"]):
            if not target.is_valid or not len(target):
                raise InputError(f"targets {path}: row {row} has no target to learn from: remove it")

    def __len__(self) -> int:
        return self._rows.num_rows

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        prompt, target = (self._rows[name][index].as_py() for name in ("prompt", "target"))
        example = encode_episode(prompt, target, self._tokenizer, self._template)
        ids = torch.tensor(example.prompt + example.response)
        mask = torch.tensor([0] * len(example.prompt) + example.mask)
        return {
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "loss_mask": mask,
            "row": torch.tensor([index]),
        }


class SupervisedTrainer:
    """The loop: one update per batch of targets, with checkpoints and metrics like verl's trainer."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.checkpoints = Path(config.trainer.default_local_dir)
        model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        self.pad_token_id = model.tokenizer.pad_token_id
        data: Any = OmegaConf.to_container(config.data)
        self.dataset = dataset = TargetDataset(data["train_files"], model.tokenizer, chat_template(config))
        self.loader = StatefulDataLoader(
            dataset,
            batch_size=config.data.train_batch_size,
            sampler=create_rl_sampler(config.data, dataset),
            collate_fn=SFTTensorCollator(DatasetPadMode.NO_PADDING),
            num_workers=config.data.dataloader_num_workers,
            drop_last=True,
        )
        self.ledger = Ledger(Path(config.paths.run) / LEDGER)
        self.workers = self._build_workers(model)

    def _build_workers(self, model: Any) -> Any:
        """verl's group of workers, which has the methods of `TrainingWorker`."""
        section, trainer = self.config.actor_rollout_ref.actor, self.config.trainer
        with open_dict(section):
            section.optim.total_training_steps = trainer.total_training_steps
        actor = omega_conf_to_dataclass(section)
        actor.model_config = model
        actor.engine.use_dynamic_bsz = section.use_dynamic_bsz
        actor.engine.max_token_len_per_gpu = section.ppo_max_token_len_per_gpu
        actor.engine.micro_batch_size_per_gpu = section.ppo_micro_batch_size_per_gpu
        worker = TrainingWorkerConfig(
            model_type="language_model",
            model_config=model,
            engine_config=actor.engine,
            optimizer_config=actor.optim,
            checkpoint_config=actor.checkpoint,
        )
        # One process per GPU: verl's default would reserve the CPUs of ten.
        pool = RayResourcePool(process_on_nodes=[trainer.n_gpus_per_node] * trainer.nnodes, max_colocate_count=1)
        build = RayClassWithInitArgs(ray.remote(TrainingWorker), config=worker)
        workers: Any = RayWorkerGroup(resource_pool=pool, ray_cls_with_init=build, device_name=trainer.device)
        workers.set_loss_fn(
            partial(supervised_loss, method_path(self.config.method.type), of_run(self.config).model_dump_json())
        )
        workers.reset()
        return workers

    def fit(self) -> None:
        """Train from the newest checkpoint to ``trainer.total_training_steps``."""
        trainer = self.config.trainer
        settings = OmegaConf.to_container(self.config, resolve=True)
        tracking = Tracking(trainer.project_name, trainer.experiment_name, list(trainer.logger), settings)
        step, batches, completer = self._load(), iter(self.loader), Completer()
        while step < trainer.total_training_steps:
            step += 1
            timing: dict[str, float] = {}
            with marked_timer("step", timing):
                try:
                    rows = next(batches)
                except StopIteration:
                    batches = iter(self.loader)
                    rows = next(batches)
                with marked_timer("update_actor", timing):
                    metrics = self._update(rows, step)
                require_finite(step, metrics, ("actor/sft_loss", "actor/grad_norm"))
                saves = step % trainer.save_freq == 0 or step == trainer.total_training_steps
                if saves:
                    with marked_timer("save_checkpoint", timing):
                        self._save(step)
            metrics["perf/throughput"] = metrics["perf/total_num_tokens"] / timing["step"] / self.workers.world_size
            metrics |= {f"timing_s/{name}": seconds for name, seconds in timing.items()}
            tracking.log(data=metrics, step=step)
            if saves:  # a run that is killed before resumes from the checkpoint before, so that no step lacks metrics
                completer.start(self.checkpoints, step, self.config.run.keep_checkpoints)
        completer.wait()
        tracking.finish(exit_code=0)

    def _update(self, rows: dict[str, Any], step: int) -> dict[str, float]:
        """Make one optimiser step on a batch and note it in the ledger; metrics have the other recipes' names."""
        actor = self.config.actor_rollout_ref.actor
        lengths = rows["input_ids"].offsets().diff().tolist()
        targets = rows["loss_mask"].values().sum().item()
        batch: TensorDict = tu.get_tensordict(
            rows,
            {
                "use_remove_padding": self.config.actor_rollout_ref.model.use_remove_padding,
                "use_dynamic_bsz": actor.use_dynamic_bsz,
                "max_token_len_per_gpu": actor.ppo_max_token_len_per_gpu,
                "micro_batch_size_per_gpu": actor.ppo_micro_batch_size_per_gpu,
                "temperature": 1.0,
                "global_batch_size": len(lengths),
                "pad_mode": DatasetPadMode.NO_PADDING,
                "pad_token_id": self.pad_token_id,
            },
        )
        tu.assign_non_tensor(batch, update_lr_scheduler=True, global_token_num=NonTensorData(lengths))
        output = tu.get(self.workers.train_batch(batch).get(), "metrics")
        self.ledger.begin()
        self.ledger.add(row_uses(output["uses"], self.dataset.targets, step))
        self.ledger.write(step)
        metrics = {name: value for name, value in output.items() if name.startswith("perf/")}
        return metrics | {
            "actor/sft_loss": output["loss"],
            "actor/grad_norm": output["grad_norm"],
            "actor/lr": output["lr"],
            "perf/mfu/actor": output["mfu"],
            "perf/total_num_tokens": sum(lengths),
            "response_length/mean": targets / len(lengths),
        }

    def _save(self, step: int) -> None:
        require_disk(self.config)
        folder = folder_of(self.checkpoints, step)
        self.workers.save_checkpoint(str(folder / "actor"), None, step)
        torch.save(self.loader.state_dict(), folder / DATA)

    def _load(self) -> int:
        """Continue from the newest checkpoint; its step, or 0."""
        step = latest_step(self.checkpoints)
        if step:
            folder = folder_of(self.checkpoints, step)
            self.workers.load_checkpoint(str(folder / "actor"))
            self.loader.load_state_dict(torch.load(folder / DATA, weights_only=True))
        return step


@ray.remote
class SupervisedRunner:
    """The process in which the loop runs; the other recipes have verl's task runner for it."""

    def run(self, config: DictConfig) -> None:
        SupervisedTrainer(recorded(config)).fit()
