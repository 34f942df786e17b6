"""The trainer: a V1 trainer of verl with LUFFY's advantages, off-policy samples and rollout correction."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl import DataProto
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils.debug import marked_timer
from verl.workers.utils.padding import response_to_nested

from core.files import digest_bytes
from core.ledger_verdicts import LEDGER
from core.metric_table import CUT_SHARE
from training.algorithms.samples import Samples
from training.algorithms.tensors import fit_width
from training.job.checkpoints import Completer, folder_of, read_dispatched, record_score
from training.job.records.metrics_log import require_finite
from training.job.user_reward import VERIFIERS
from training.methods import method_path
from training.resources.requirements import require_disk
from training.verl_hooks.actor_worker import PolicyWorker
from training.verl_hooks.batch import FIELDS, LOGGED, log_entries, order_of_updates, sample_of, samples_of
from training.verl_hooks.loss import PHI, WEIGHTS, mean_of_sums, method_loss
from training.verl_hooks.metrics import Outcomes, batch_metrics, update_counts, validation_metrics
from training.verl_hooks.prompt_trainer import PromptTrainer
from training.verl_hooks.replay_buffer import GroupReplayBuffer
from training.verl_hooks.reward import require_few_errors
from training.verl_hooks.target_uses import Ledger, supervised_uses, target_uses

TRAIN = "train"  # verl's partition of the samples that a step learns from
POLL_SECONDS = 0.1  # verl's 2 s would be most of a step of a small model


EVICTED = "training/off_policy/evicted_samples"  # verl's name; it counts groups
# verl's figures of staleness, which count off-policy samples: those have no version.
OF_ALL_SAMPLES = "training/off_policy/trajectory_"


def extra_info(batch: KVBatchMeta) -> dict[str, Any]:
    """What the workers get besides the samples of ``batch``."""
    assert batch.extra_info is not None  # unless somebody asks for a batch without
    return batch.extra_info


class MixedPolicy(PromptTrainer):
    """Mixed-policy GRPO for any trainer of verl; its order of a step and other methods stay unchanged."""

    buffer = GroupReplayBuffer

    def __init__(self, config: Any):
        super().__init__(config)
        self._logged: dict[str, dict[str, Any]] = {}  # of this step's samples, by their key: for the log of rollouts
        self.ledger = Ledger(Path(config.paths.run) / LEDGER)
        self.outcomes = Outcomes()  # of this step's samples
        self._counts = Counter[str]()  # of this step; verl averages the metrics of mini-batches that it samples apart
        self._saved: int | None = None  # the step of a checkpoint that is not complete
        self._completer = Completer()

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in {Role.ActorRollout, Role.ActorRolloutRef} & self.role_worker_mapping.keys():
            self.role_worker_mapping[role] = ray.remote(PolicyWorker)

    def _setup(self) -> None:
        super()._setup()
        limit = self.config.data.max_response_length
        method = method_path(self.config.method.type), self.method.model_dump_json()
        self.actor_rollout_wg.set_loss_fn(partial(method_loss, *method, limit))

    @cached_property
    def has_verifiers(self) -> bool:
        """Whether a source is not mathematics."""
        return VERIFIERS in (self.config.reward.custom_reward_function.get("reward_kwargs") or {})

    @cached_property
    def has_several_sources(self) -> bool:
        """Whether the prompts are of several sources, so that each has curves of its own."""
        dataset: Any = self.train_dataset  # verl's RLHFDataset
        return len(dataset.dataframe.unique("data_source")) > 1

    def _build_replay_buffer(self) -> GroupReplayBuffer:
        data, sampler = self.config.data, self.config.trainer.v1.sampler
        metric = self._resolve_filter_groups_metric()
        buffer = self.buffer(
            trainer_mode=self.trainer_mode,
            trainer_config=self.config.trainer.v1.get(self.trainer_mode, {}),
            max_off_policy_threshold=sampler.max_off_policy_threshold,
            max_off_policy_strategy=sampler.max_off_policy_strategy,
            sampler_kwargs=sampler.sampler_kwargs,
            refill_fn=self._add_prompts_to_generate,
            poll_interval=POLL_SECONDS,
            filter_groups_metric=metric,
            train_batch_size=data.train_batch_size,
            gen_batch_size=1 if metric is not None else data.get("gen_batch_size") or data.train_batch_size,
            max_inflight_gen_batches=self.config.algorithm.filter_groups.max_inflight_gen_batches,
        )
        return buffer.follow(self.method, self.n)

    def _balance_batch(self, batch: KVBatchMeta, *arguments: Any, **options: Any) -> KVBatchMeta:
        """verl's, from an order that does not depend on which rollout ended first: it decides what an update sees.

        verl balances the ranks over a whole step; here each of its updates is balanced, too.
        """
        prompts = tq.kv_batch_get(keys=batch.keys, partition_id=TRAIN, select_fields=["prompts"])["prompts"]
        order = [digest_bytes(f"{self.global_steps} {prompt.tolist()}".encode()) for prompt in prompts]
        places = [(digest, sample_of(key)[1]) for digest, key in zip(order, batch.keys, strict=True)]
        batch.reorder(sorted(range(len(places)), key=places.__getitem__))
        batch = super()._balance_batch(batch, *arguments, **options)
        ranks, section = self._ranks, self.config.actor_rollout_ref
        rows = section.actor.ppo_mini_batch_size * section.rollout.n // ranks
        if ranks > 1 and len(batch.keys) > ranks * rows:
            batch.reorder(order_of_updates([tag["seq_len"] for tag in batch.tags], ranks, rows))
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_old_log_prob(batch, metrics)
        # verl compares the two policies at every response token, and off-policy tokens have no rollout log-probability.
        # Its entropy is over all tokens too: `_compute_advantage` tells them apart.
        for name in [name for name in metrics if name.startswith("training/rollout_") or name == "actor/entropy"]:
            del metrics[name]
        return batch

    def _rewards(self, samples: Samples, metrics: dict[str, Any]) -> torch.Tensor:
        """Token by token; with verl's penalty for drift from the reference policy where it is part of the reward."""
        rewards = samples.rows["rm_scores"]
        if not self.config.algorithm.use_kl_in_reward:
            return rewards
        proto = DataProto(batch=samples.rows[samples.sampled])
        proto.batch["token_level_scores"] = rewards[samples.sampled]
        proto, kl_metrics = apply_kl_penalty(
            proto,
            self.kl_ctrl_in_reward,  # pyright: ignore[reportArgumentType]  verl names one of its two controllers
            self.config.algorithm.kl_penalty,
        )
        metrics.update(kl_metrics)
        rewards = rewards.clone()
        rewards[samples.sampled] = proto.batch["token_level_rewards"]
        return rewards

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Compute the inputs of the update over the whole batch, and put them next to the samples."""
        fields = [*FIELDS, *self.method.fields()]
        fields += ["ref_log_prob"] if self.use_reference_policy else []
        fields += ["prompt_key"] if self.method.by_prompt else []
        data = tq.kv_batch_get(keys=batch.keys, partition_id=TRAIN, select_fields=fields)
        samples = samples_of(data, batch.keys, batch.tags, self.config.data.max_response_length)
        nested_mask = data["response_mask"]
        sampled = samples.sampled
        scores = samples.rows["rm_scores"].sum(-1)
        on_policy = samples.on_policy[sampled]
        solved = samples.solved[sampled]
        index = samples.index[sampled.numpy()]
        drawn: list[int] = sampled.nonzero().squeeze(-1).tolist()
        sources = [samples.sources[row] for row in drawn]
        errors = [samples.errors[row] for row in drawn]
        require_few_errors(self.global_steps, errors, sources)
        if self.has_verifiers:
            metrics["reward/errors"] = float(len(list(filter(None, errors))))
        self.outcomes.add(sources, scores[sampled], solved, index, on_policy)
        updates = self.global_steps - 1
        signal = self.method.signal(samples, self._rewards(samples, metrics), updates)
        metrics |= signal.metrics | batch_metrics(samples, updates) | self.method.note(samples, self)
        actor = self.config.actor_rollout_ref.actor
        n = self.config.actor_rollout_ref.rollout.n
        prompts = self.config.data.train_batch_size // self.parameter_sync_step
        metrics["batch/generation_requests"] = float(samples.rows["requests"][sampled].sum())
        metrics["batch/missing_samples"] = float(prompts * n - sampled.sum())
        counted = [name for name in metrics if name.startswith("batch/") or name == "reward/errors"]
        self._counts.update({name: metrics[name] for name in counted})
        terms = self.method.losses()[signal.loss].terms
        self.ledger.add_losses(target_uses(samples, signal, terms, self.global_steps))
        entries = zip(batch.keys, log_entries(samples), sampled.tolist(), strict=True)
        self._logged |= {key: entry for key, entry, is_sample in entries if is_sample}

        inputs = {"advantages": signal.advantages, "returns": signal.advantages}
        inputs["rollout_is_weights"] = signal.ratio_weights
        if (phi := samples.rows.get("off_policy_log_probs")) is not None:
            inputs[PHI] = fit_width(phi, samples.mask.shape[1])
        inputs |= {f"{WEIGHTS}{name}": weight.expand(samples.mask.shape) for name, weight in signal.weights.items()}
        nested = {name: response_to_nested(value.float(), nested_mask) for name, value in inputs.items()}
        batch = tq.kv_batch_put(keys=batch.keys, partition_id=TRAIN, fields=TensorDict(nested, batch_size=len(batch)))
        share = actor.ppo_mini_batch_size * n / len(batch)  # of the batch, that one update sees
        counts = update_counts(samples.mask, signal.weights, share)
        extra_info(batch).update(
            counts=counts,
            coefficients=signal.coefficients,
            loss=signal.loss,
            reads_logits=any(term.reads_logits for term in terms),
            skip_grad_norm=signal.skip_grad_norm,
        )
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        coefficients = extra_info(batch)["coefficients"]
        if "sft_loss" in coefficients:
            metrics["actor/sft_coef"] = coefficients["sft_loss"]
        batch = super()._update_actor(batch, metrics)
        mean_of_sums(metrics, "actor/")
        metrics["actor/entropy_coeff"] = -coefficients.get("entropy_loss", 0.0)
        try:
            require_finite(self.global_steps, metrics, ("actor/loss", "actor/pg_loss", "actor/grad_norm"))
        except FloatingPointError as error:
            folder = self.config.trainer.rollout_data_dir
            self._log_rollout_data(batch, self.timing_raw, folder)
            self._shutdown_dump_executor()  # returns when the batch is written
            raise FloatingPointError(f"{error}; the batch is in {folder}/{self.global_steps}.jsonl") from None
        last = self.local_trigger_step == self.parameter_sync_step - 1  # the coefficient changes once a step
        if last:
            self.method.end_step(metrics)
        metrics |= self.method.after_update(self)
        return batch

    def supervised_update(
        self, prompts: Sequence[int], loss: str, coefficients: Mapping[str, float], clip_grad: float
    ) -> dict[str, float]:
        metrics = super().supervised_update(prompts, loss, coefficients, clip_grad)
        self.ledger.add(supervised_uses([self.problems.target(prompt) for prompt in prompts], self.global_steps))
        return metrics

    def on_step_begin(self) -> None:
        self._complete_checkpoint()
        super().on_step_begin()
        self._logged.clear()
        self._counts.clear()
        self.outcomes = Outcomes()
        self.ledger.begin()

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        metrics.update(self._counts)
        metrics.update(self.outcomes.metrics(by_source=self.has_several_sources))
        # verl's counts those that are as long as the longest of the batch.
        metrics[CUT_SHARE] = sum(entry["cut"] for entry in self._logged.values()) / max(len(self._logged), 1)
        self.ledger.write(global_steps)
        for name in [name for name in metrics if name.startswith(OF_ALL_SAMPLES)]:
            del metrics[name]
        dropped = metrics.get(EVICTED, 0.0) * self.config.actor_rollout_ref.rollout.n
        metrics["staleness/dropped_samples"] = float(dropped)
        metrics["idle/trainer"] = timing_raw["gen"] / timing_raw["step"]
        metrics["idle/rollouts"] = self._rollouts_idle(timing_raw)

    def _rollouts_idle(self, timing_raw: dict[str, float]) -> float:
        """Share of the step in which vLLM did not generate: here it does so while the trainer waits for samples."""
        return 1.0 - timing_raw["gen"] / timing_raw["step"]

    def _log_rollout_data(self, batch: KVBatchMeta, timing_raw: dict[str, float], rollout_data_dir: str) -> None:
        rows = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        keys, tags = map(list, zip(*rows, strict=True))
        sampled = KVBatchMeta(partition_id=batch.partition_id, keys=keys, tags=tags)
        super()._log_rollout_data(sampled, timing_raw, rollout_data_dir)

    def _dump_generations(self, *args: Any, reward_extra_infos_dict: dict[str, list[Any]], **kwargs: Any) -> None:
        entries = [self._logged.get(key, {}) for key in reward_extra_infos_dict["uid"]]
        named = {name: [entry.get(name, default) for entry in entries] for name, default in LOGGED.items()}
        extra = {**reward_extra_infos_dict, **named}
        super()._dump_generations(*args, reward_extra_infos_dict=extra, **kwargs)

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        assert expected_acc_counts is not None  # verl's trainers all pass it
        metrics = validation_metrics(data_sources, reward_extra_infos_dict["reward"], expected_acc_counts)
        record_score(Path(self.config.trainer.default_local_dir), self.global_steps, metrics["validation/score"])
        return metrics

    def _save_checkpoint(self) -> None:
        require_disk(self.config)
        super()._save_checkpoint()
        folder = Path(self.config.trainer.default_local_dir)
        self.method.save(folder_of(folder, self.global_steps))
        self._saved = self.global_steps
        self._dispatched = self.dispatched

    def _complete_checkpoint(self) -> None:
        """Complete the checkpoint of the step that has ended.

        verl saves before it validates, logs the metrics and writes the samples. A run that is killed in between resumes
        from the checkpoint before, so that no step lacks them.
        """
        if self._saved is None:
            return
        with marked_timer("save_checkpoint", self.timing_raw):
            for samples in self._dump_futures:
                samples.result()
            folder = Path(self.config.trainer.default_local_dir)
            self._completer.start(folder, self._saved, self.config.run.keep_checkpoints, self._dispatched)
            self._saved = None

    def _shutdown_dump_executor(self) -> None:
        super()._shutdown_dump_executor()
        self._complete_checkpoint()  # of the last step, after which no other begins
        self._completer.wait()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps:
            folder = Path(self.config.trainer.default_local_dir)
            self.dispatched = read_dispatched(folder, self.global_steps)
            self.method.load(folder_of(folder, self.global_steps))


@register_trainer("mixed_sync")
class MixedPolicyTrainer(MixedPolicy, PPOTrainerSync):
    """The synchronous trainer: every sample of a step is drawn with the weights at its start."""

    # verl compares this name with "sync" to choose its synchronous paths.
    trainer_mode = property(lambda self: "sync", lambda self, _: None)
