"""Compare the time and memory of ``training.algorithms`` with reference implementations, in one run.

    OMP_NUM_THREADS=1 .venv-train/bin/python -m perf.trainings.algorithms [--device cuda] [--small]

The two functions of a pair are called in turn (a, b, a, b, ...). Their ratio is the median of the ratios of
neighbouring calls, so that other work on the machine affects both alike. Peak memory is the most that PyTorch's
allocator holds above what it held before the call. Each verdict says whether a ratio meets its target; the exit status
is 1 if one does not.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from training.algorithms.advantage import group_advantage
from training.algorithms.correction import Mismatch, rollout_correction
from training.algorithms.mixed_loss import mean_stats, mixed_policy_token_loss
from training.algorithms.options import GroupOptions, LossOptions, RolloutCorrectionOptions
from training.algorithms.registry import CORRECTIONS

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table. ``limit``: the ratio that meets the target, None for no target; ``bytes_moved``: the least
    that the work reads and writes, for the bandwidth on a GPU."""

    what: str
    ours: float
    against: str
    theirs: float
    ratio: float
    limit: float | None
    unit: str = "ms"
    bytes_moved: int = 0

    @property
    def met(self) -> bool:
        return self.limit is None or self.ratio <= self.limit


def compare(
    repeat: int,
    device: torch.device,
    what: str,
    ours: Call,
    against: str,
    theirs: Call,
    limit: float | None,
    moved: int = 0,
) -> Row:
    """Return the median milliseconds of each, and the median ratio of neighbouring calls."""
    pairs = [(milliseconds(ours, device), milliseconds(theirs, device)) for _ in range(repeat + 2)]
    pairs = pairs[2:]  # the first calls pay for pages and caches
    mine, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Row(what, mine, against, other, statistics.median(a / b for a, b in pairs), limit, bytes_moved=moved)


def milliseconds(call: Call, device: torch.device) -> float:
    """Wall time of one call, all of its kernels included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - start)


def peak_bytes(call: Call, device: torch.device) -> int:
    """Return the peak of PyTorch's allocator during one call, beyond its amount before."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    held = peak = 0
    memory = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(memory, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def split_advantage(device: torch.device, repeat: int, prompts: int, length: int) -> list[Row]:
    """Time 1024 prompts x 8 rows against two passes over memory, and against a loop over rows."""
    rows = 8 * prompts
    rewards = torch.zeros(rows, length, device=device)
    rewards[:, -1] = torch.randint(0, 2, (rows,), device=device).float()
    mask = torch.arange(length, device=device) < torch.randint(1, length + 1, (rows, 1), device=device)
    index = [f"prompt-{row // 8}" for row in range(rows)]
    on_policy = (torch.arange(rows, device=device) % 8) != 0
    scores, per_row = rewards.sum(dim=-1), torch.rand(rows, 1, device=device)
    options = GroupOptions(baseline="on_policy", use_std=True)

    def passes() -> torch.Tensor:
        rewards.sum(dim=-1)
        return per_row * mask

    def loop_and_passes() -> torch.Tensor:
        return loop_over_rows(rewards.sum(dim=-1), index, on_policy).unsqueeze(-1) * mask

    def split() -> torch.Tensor:
        return group_advantage(rewards.sum(dim=-1), index, on_policy, options).unsqueeze(-1) * mask

    group = partial(group_advantage, scores, index, on_policy, options)
    loop = partial(loop_over_rows, scores, index, on_policy)
    moved = rewards.nbytes * 2 + mask.nbytes
    return [
        compare(repeat, device, f"split advantage [{rows}, {length}]", split, "its two passes", passes, 1.5, moved),
        compare(3, device, f"group advantage [{rows}]", group, "a loop over rows", loop, 1 / 20),
        # No target: the two passes are most of our time, and the loop makes them too.
        compare(3, device, "  with its two passes", split, "loop and passes", loop_and_passes, None),
    ]


def loop_over_rows(scores: torch.Tensor, index: list[str], on_policy: torch.Tensor) -> torch.Tensor:
    """Compute statistics and advantages one row at a time, as the vectorised form replaces it."""
    members = defaultdict(list)
    for row, sampled in enumerate(on_policy):
        if sampled:
            members[index[row]].append(scores[row])
    statistics_of = {}
    for name, values in members.items():
        group = torch.stack(values)
        statistics_of[name] = (group.mean(), group.std()) if len(values) > 1 else (torch.zeros(()), torch.ones(()))
    advantages = torch.zeros_like(scores)
    for row, name in enumerate(index):
        mean, std = statistics_of[name]
        advantages[row] = (scores[row] - mean) / (std + 1e-6)
    return advantages


def mixed_loss(device: torch.device, repeat: int, rows: int, length: int) -> list[Row]:
    """Time loss, metrics and backward against verl's PPO loss with its metrics and backward."""
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.workers.config import ActorConfig

    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=0.2)
    log_prob = (-5.0 * torch.rand(rows, length, device=device)).requires_grad_()
    old_log_prob = (log_prob + 0.1 * torch.randn(rows, length, device=device)).detach()
    advantages = torch.randn(rows, 1, device=device).expand(rows, length).contiguous()
    mask = torch.arange(length, device=device) < torch.randint(length // 2, length + 1, (rows, 1), device=device)
    prefix = mask & (torch.arange(rows, device=device) % 8 == 0).unsqueeze(-1)

    def backward(loss: torch.Tensor) -> None:
        loss.backward()
        log_prob.grad = None

    def vanilla() -> None:
        backward(compute_policy_loss_vanilla(old_log_prob, log_prob, advantages, mask, "token-mean", config)[0])

    def mixed(options: LossOptions) -> None:
        losses, stats = mixed_policy_token_loss(old_log_prob, log_prob, advantages, mask, prefix, options)
        mean_stats(stats)
        backward(losses.sum() / stats["pg_loss"][1])

    variants = {
        "no reshape, clip": LossOptions(),
        "luffy (p_div_p_0.1, no clip)": LossOptions(off_policy_reshape="p_div_p_0.1", loss_remove_clip=True),
        "luffy_seed (p_div_p_0.5, max 10)": LossOptions(off_policy_reshape="p_div_p_0.5", off_max_clip=10.0),
        "p_div_p_0.1 on and off": LossOptions(off_policy_reshape="p_div_p_0.1", on_policy_reshape="p_div_p_0.1"),
    }
    table = []
    moved = 4 * log_prob.nbytes + 2 * mask.nbytes
    theirs = peak_bytes(vanilla, device) / 2**20
    for name, options in variants.items():
        call = partial(mixed, options)
        table.append(compare(repeat, device, f"mixed loss, {name}", call, "verl vanilla", vanilla, 1.3, moved))
        ours = peak_bytes(call, device) / 2**20
        table.append(Row("  peak memory", ours, "verl vanilla", theirs, ours / theirs, 1.3, "MiB"))
    return table


def correction(device: torch.device, repeat: int, rows: int, length: int) -> list[Row]:
    """Time reinforce_pro against icepop: the weights alone, and with the metrics of a step."""
    old_log_prob = -5.0 * torch.rand(rows, length, device=device)
    rollout_log_prob = old_log_prob + 0.1 * torch.randn(rows, length, device=device)
    on_policy = torch.arange(length, device=device) < torch.randint(length // 2, length + 1, (rows, 1), device=device)
    log_ratio = torch.where(on_policy, old_log_prob - rollout_log_prob, 0.0)

    weights, whole = [], []
    for name in ("reinforce_pro", "icepop"):
        options = RolloutCorrectionOptions(type=name)
        correct = CORRECTIONS.function(name)
        weights.append(lambda correct=correct, options=options: correct(Mismatch(log_ratio, on_policy), options))
        whole.append(partial(rollout_correction, old_log_prob, rollout_log_prob, on_policy, None, options))
    moved = 2 * log_ratio.nbytes + 2 * on_policy.nbytes
    return [
        compare(repeat, device, "reinforce_pro, weights", weights[0], "icepop", weights[1], 3, moved),
        compare(repeat, device, "reinforce_pro, with metrics", whole[0], "icepop", whole[1], 3),
    ]


def bandwidth(device: torch.device) -> float:
    """Return the bytes per second of a large copy (read and write), the roof for work that only moves memory."""
    source = torch.empty(2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    fastest = min(milliseconds(lambda: target.copy_(source), device) for _ in range(10))
    return 2 * source.nbytes / (fastest / 1e3)


def show(table: list[Row], device: torch.device) -> str:
    """Return the table as text; on a GPU with the share of the bandwidth that the least possible traffic amounts to."""
    roof = bandwidth(device) if device.type == "cuda" else 0.0
    lines = [f"{'what':44} {'ours':>12} {'against':18} {'theirs':>12} {'ratio':>7} {'target':>8}  verdict"]
    for row in table:
        verdict = "" if row.limit is None else "met" if row.met else "NOT MET"
        target = "-" if row.limit is None else f"<= {row.limit:g}"
        line = (
            f"{row.what:44} {row.ours:8.2f} {row.unit:3} {row.against:18} {row.theirs:8.2f} {row.unit:3}"
            f" {row.ratio:7.3f} {target:>8}  {verdict}"
        )
        if roof and row.bytes_moved:
            share = row.bytes_moved / (row.ours / 1e3) / roof
            line += f"  {row.bytes_moved / 2**20:.0f} MiB at least, {share:.0%} of {roof / 1e9:.0f} GB/s"
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--repeat", type=int, default=15, help="measured calls of each (default: 15)")
    parser.add_argument("--small", action="store_true", help="1/16 of the sizes: a check that it runs, not a figure")
    arguments = parser.parse_args()
    device, scale = torch.device(arguments.device), 16 if arguments.small else 1
    torch.manual_seed(0)
    table = [
        *split_advantage(device, arguments.repeat, 1024 // scale, 8192),
        *mixed_loss(device, arguments.repeat, 64 // scale, 8192),
        *correction(device, arguments.repeat, 64 // scale, 8192),
    ]
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads, median of {arguments.repeat}")
    print(show(table, device))
    return 0 if all(row.met for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
