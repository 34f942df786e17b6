"""Send a step of the paper through TransferQueue, between processes as in a training.

``.venv-train/bin/python -m perf.trainings.transfer_queue`` starts Ray with the queue's controller and storage units,
lets agents put 1,024 samples of 9,216 tokens one at a time, ranks read their shares and put log-probabilities, and the
trainer read and put its columns. It prints seconds by the clock, and those of the processors for what the agents do.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict

from core.machine.loopback import single_node_environment
from perf.measurement import parser_of
from training.job.configuration import compose_run

PROMPT, RESPONSE = 1024, 8192
PARTITION = "train"
OF_PROMPTS, OF_RESPONSES = ("prompts",), ("responses", "response_mask", "rollout_log_probs", "rm_scores")
OF_ROWS = ("input_ids", "position_ids", "loss_mask")
READ_BY_RANKS = [*OF_ROWS, "prompts", "responses", "response_mask"]
READ_BY_TRAINER = ["response_mask", "rm_scores", "rollout_log_probs", "old_log_probs"]
PUT_BY_TRAINER = ("advantages", "returns", "rollout_is_weights")


def columns(names: tuple[str, ...], rows: int, tokens: int) -> dict[str, torch.Tensor]:
    """Columns of ``rows`` x ``tokens`` numbers, as verl stores them."""
    whole = torch.arange(tokens).expand(rows, -1)
    kinds = {name: whole.float() if "log_probs" in name or name == "rm_scores" else whole for name in names}
    return {name: torch.nested.as_nested_tensor(list(values), layout=torch.jagged) for name, values in kinds.items()}


@ray.remote(num_cpus=1)
class Worker:
    """An agent that puts samples, and then a rank that reads as many."""

    def __init__(self, number: int, rows: int) -> None:
        tq.init()
        self.keys = [f"{number}_{row}" for row in range(rows)]

    def put_samples(self) -> float:
        """Put the samples one by one; the processor's seconds for it."""
        lengths = ((OF_PROMPTS, PROMPT), (OF_RESPONSES, RESPONSE), (OF_ROWS, PROMPT + RESPONSE))
        fields = {name: column for names, tokens in lengths for name, column in columns(names, 1, tokens).items()}
        sample, started = TensorDict(fields, batch_size=[1]), time.process_time()
        for key in self.keys:
            tq.kv_batch_put(keys=[key], partition_id=PARTITION, fields=sample, tags=[{"seq_len": PROMPT + RESPONSE}])
        return time.process_time() - started

    def read(self) -> int:
        """Return the bytes that a rank reads for its update."""
        data: Any = tq.kv_batch_get(keys=self.keys, partition_id=PARTITION, select_fields=READ_BY_RANKS)
        return sum(column.values().nbytes for column in data.values())

    def put_log_probs(self) -> None:
        put(self.keys, ("old_log_probs",))


def put(keys: list[str], names: tuple[str, ...]) -> None:
    fields = TensorDict(columns(names, len(keys), RESPONSE), batch_size=[len(keys)])
    tq.kv_batch_put(keys=keys, partition_id=PARTITION, fields=fields)


def timed(name: str, call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns, after a line with its seconds."""
    started = time.monotonic()
    result = call()
    sys.stdout.write(f"{name:<40}{time.monotonic() - started:8.2f} s\n")
    return result


def main() -> None:
    parser = parser_of("trainings.transfer_queue", __doc__)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=2, help="agents, ranks and storage units")
    options = parser.parse_args()
    units = f"transfer_queue.backend.SimpleStorage.num_data_storage_units={options.workers}"
    config = compose_run("luffy", "gpu", [units], run=Path("run"))
    environment = {**single_node_environment(), "OMP_NUM_THREADS": "1"}
    ray.init(num_cpus=64, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": environment})
    OmegaConf.resolve(config)
    tq.init(config.transfer_queue)
    workers: list[Any] = [
        Worker.remote(number, options.samples // options.workers)  # pyright: ignore[reportAttributeAccessIssue]
        for number in range(options.workers)
    ]
    keys = [f"{number}_{row}" for number in range(options.workers) for row in range(options.samples // options.workers)]
    seconds = timed("agents put samples, one by one", lambda: ray.get([one.put_samples.remote() for one in workers]))
    sys.stdout.write(f"{'of their processors':<40}{sum(seconds):8.2f} s\n")
    read = timed("ranks read their samples", lambda: ray.get([one.read.remote() for one in workers]))
    timed("ranks put log-probabilities", lambda: ray.get([one.put_log_probs.remote() for one in workers]))
    columns_read = {"keys": keys, "partition_id": PARTITION, "select_fields": READ_BY_TRAINER}
    timed("the trainer reads its columns", lambda: tq.kv_batch_get(**columns_read))
    timed("the trainer puts its columns", lambda: put(keys, PUT_BY_TRAINER))
    sys.stdout.write(f"{sum(read) / 1e9:.2f} GB for the ranks\n")
    ray.shutdown()


if __name__ == "__main__":
    main()
