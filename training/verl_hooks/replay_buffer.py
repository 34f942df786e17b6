"""The source of the trainer's groups: verl's buffer, without the groups that cannot be learned from."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import FILTER_GROUPS_REWARD_METRIC, ReplayBuffer, ReplayBufferAsync

from training.methods.method import Method
from training.verl_hooks.batch import sample_of
from training.verl_hooks.reward import is_solved, reward_info


class Finished(NamedTuple):
    """What a finished sample says of its group."""

    value: float  # what the filter compares
    solved: bool
    on_policy: bool  # the policy sampled all of it, and from the problem alone
    off_policy_group: bool
    rewards: Mapping[str, Any]


class GroupReplayBuffer(ReplayBuffer):
    """verl's buffer; it drops groups with failed off-policy samples.

    Which groups carry no signal, a filter decides by the rewards of all samples or of on-policy samples
    (`Method.decide`). Those that teach nevertheless stay (`Method.keeps`), as a group that was never solved does where
    its target has a supervised loss, and so do groups without a sample that could decide.
    """

    off_policy_samples: int = 0  # number for a group with any; they come first
    draws: bool = True  # whether a group has other samples, too
    method: Method = Method()

    def follow(self, method: Method, n: int) -> Self:
        """Set up for groups of ``n`` samples of a method."""
        self.method = method
        self.off_policy_samples = method.off_policy_samples(n)
        self.draws = self.off_policy_samples < n
        return self

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if partition_id == "val":
            return batch, metrics
        on_policy = self._without_off_policy(partition_id, batch.keys)
        complete = complete_groups(batch.keys, self.off_policy_samples, on_policy)
        kept = [(key, tag) for key, tag, whole in zip(batch.keys, batch.tags, complete, strict=True) if whole]
        if not kept:
            raise RuntimeError("no group of the batch has all its off-policy samples")
        drawn = (sample_of(key) for key, _ in kept)
        if self.draws and not any(n >= self.off_policy_samples or prompt in on_policy for prompt, n in drawn):
            raise RuntimeError("no sample of the batch was generated")
        if dropped := [key for key, whole in zip(batch.keys, complete, strict=True) if not whole]:
            tq.kv_clear(partition_id=partition_id, keys=dropped)
        metrics["groups/dropped"] = float(len({sample_of(key)[0] for key in dropped}))
        keys, tags = map(list, zip(*kept, strict=True))
        return KVBatchMeta(partition_id=partition_id, keys=keys, tags=tags), metrics

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        if partition_id == "val" or self.filter_groups_metric is None:
            return set(), Counter()
        finished = self.finished_keys[partition_id]
        looked_at = self._dapo_classification_cache[partition_id]
        for prompt in looked_at.keys() - finished:
            del looked_at[prompt]
        groups: dict[str, list[Finished]] = {prompt: [] for prompt in finished - looked_at.keys()}
        keys = [key for key in self.partitions[partition_id] if sample_of(key)[0] in groups]
        for key, sample in zip(keys, self._finished(partition_id, keys), strict=True):
            groups[sample_of(key)[0]].append(sample)
        looked_at |= {prompt: self._outcome(samples) for prompt, samples in groups.items()}
        dropped = {prompt: outcome for prompt, outcome in looked_at.items() if outcome is not None}
        return set(dropped), Counter(dropped.values())

    def _finished(self, partition_id: str, keys: Sequence[str]) -> list[Finished]:
        """Return the finished samples ``keys``; their outcomes are shown to a method that follows prompts."""
        if not keys:
            return []
        fields = ["prefix_length", "guided", "group_off_policy", "rm_scores", "extra_fields"]
        fields += ["prompt_key"] if self.method.by_prompt else []
        data = tq.kv_batch_get(keys=list(keys), partition_id=partition_id, select_fields=fields)
        infos = list(map(reward_info, list(data["extra_fields"])))
        rewards = [float(scores.sum()) for scores in data["rm_scores"]]
        solved = [is_solved(info, reward) for info, reward in zip(infos, rewards, strict=True)]
        on_policy = ((data["prefix_length"] == 0) & (data["guided"] == 0)).tolist()
        if self.method.by_prompt:
            self.method.see(data["prompt_key"].tolist(), solved, on_policy)
        metric = str(self.filter_groups_metric)
        if metric != FILTER_GROUPS_REWARD_METRIC:
            if any(metric not in info for info in infos):
                raise RuntimeError(f"method.filter.metric={metric}: the reward function returns no such value")
            rewards = [float(info[metric]) for info in infos]
        rows = zip(rewards, solved, on_policy, data["group_off_policy"].tolist(), infos, strict=True)
        return [Finished(value, right, own, bool(off), info) for value, right, own, off, info in rows]

    def _outcome(self, samples: Sequence[Finished]) -> float | None:
        """Return the one outcome of a group that teaches nothing; None for another group."""
        deciding = [one for one in samples if one.on_policy or self.method.decide == "all_samples"]
        if len(deciding) < 2 or len({one.value for one in deciding}) > 1:
            return None
        if any(len({one.rewards.get(name) for one in deciding}) > 1 for name in self.method.rewards):
            return None
        off_policy = self.off_policy_samples > 0 and all(one.off_policy_group for one in samples)
        solved = any(one.solved for one in deciding)
        return None if self.method.keeps(solved=solved, off_policy=off_policy) else deciding[0].value

    def _without_off_policy(self, partition_id: str, keys: Sequence[str]) -> set[str]:
        """Return the prompts of the samples ``keys`` in groups without off-policy samples."""
        if not self.off_policy_samples:
            return {sample_of(key)[0] for key in keys}
        data = tq.kv_batch_get(keys=list(keys), partition_id=partition_id, select_fields=["group_off_policy"])
        return {
            sample_of(key)[0] for key, value in zip(keys, data["group_off_policy"].tolist(), strict=True) if not value
        }


class AsyncGroupBuffer(GroupReplayBuffer, ReplayBufferAsync):
    """The same for verl's asynchronous buffer, which replaces groups that failed or became too old.

    It would replace them for ever: ``require_servers`` raises an error if a server is gone, and a RuntimeError is
    raised when more groups failed, since the last batch, than a batch has.
    """

    failures: int = 0
    require_servers: Callable[[], object] = staticmethod(lambda: None)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        self.failures = 0
        return super().sample(global_steps, partition_id, batch_size)

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter[float]]:
        stale, no_signal, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        self.failures += len(failed)
        if failed:
            self.require_servers()
        if self.failures > (self.train_batch_size or 0):
            raise RuntimeError(
                f"{self.failures} groups of samples failed since the last batch, and a batch has "
                f"{self.train_batch_size}"
            )
        return stale, no_signal, failed, counts


def complete_groups(keys: Sequence[str], off_policy_samples: int, on_policy: Collection[str] = ()) -> list[bool]:
    """Return for each sample whether the first ``off_policy_samples`` samples of its group are all there.

    A group that lost a demonstration would be compared with a baseline that it was not meant to have. The groups of
    ``on_policy`` prompts have none to lose.

    >>> complete_groups(["a_0_0", "a_1_0", "b_1_0", "c_1_0"], 1, {"c"})
    [True, True, False, True]
    """
    present = {sample_of(key) for key in keys}
    return [
        sample_of(key)[0] in on_policy or all((sample_of(key)[0], n) in present for n in range(off_policy_samples))
        for key in keys
    ]
