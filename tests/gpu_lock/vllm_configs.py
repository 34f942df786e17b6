"""Builds vLLM's configuration on cards that are not there, as the rollouts and as the evaluation ask for it.

``python vllm_configs.py FOLDER``: FOLDER has one model folder per shape. One JSON line per card, shape and use.
"""

import json
import sys
from pathlib import Path

import vllm.platforms
from vllm.platforms.cuda import NonNvmlCudaPlatform
from vllm.platforms.interface import DeviceCapability

from training.resources.machine import CARDS, Gpu, card_of

KINDS = ("H100", "H200", "A100", "L40S")
PARALLEL = {"1.5B": 1, "7B": 1, "32B": 4}
PRETENDED: list[Gpu] = [CARDS[0]]  # some imports ask already


class Pretended(NonNvmlCudaPlatform):
    """Eight of the last card in `PRETENDED`."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(*PRETENDED[-1].capability)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return f"NVIDIA {PRETENDED[-1].name}"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return int(PRETENDED[-1].memory)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        return f"GPU-{device_id}"

    @classmethod
    def device_count(cls) -> int:
        return 8

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        return True


vllm.platforms._current_platform = Pretended()

import vllm.entrypoints.cli.serve as serve  # noqa: E402
from verl.workers.rollout.vllm_rollout.utils import build_cli_args_from_config  # noqa: E402
from vllm import EngineArgs  # noqa: E402
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.usage.usage_lib import UsageContext  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

from evaluation.generation.engine import EngineOptions, llm_options  # noqa: E402
from training.config.to_verl import compose_run  # noqa: E402

COPIED = (
    "dtype",
    "load_format",
    "max_model_len",
    "max_num_seqs",
    "enable_chunked_prefill",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "enable_sleep_mode",
    "logprobs_mode",
    "enforce_eager",
    "gpu_memory_utilization",
    "disable_log_stats",
)


def of_rollouts(model: Path, tensor_parallel: int) -> dict[str, object]:
    """The configuration of the server that verl starts, by way of its own command line."""
    rollout = compose_run("luffy", "gpu", [], run=Path("run")).actor_rollout_ref.rollout
    arguments = {name: rollout[name] for name in COPIED} | {
        "tensor_parallel_size": tensor_parallel,
        "distributed_executor_backend": "mp",
        "worker_extension_cls": "verl.workers.rollout.vllm_rollout.utils.vLLMColocateWorkerExtension",
        "compilation_config": json.dumps({"cudagraph_mode": "FULL_AND_PIECEWISE"}),
    }
    parser = FlexibleArgumentParser()
    commands = parser.add_subparsers(dest="subparser")
    for command in serve.cmd_init():
        command.subparser_init(commands)
    parsed = parser.parse_args(["serve", str(model), *build_cli_args_from_config(arguments)])
    parsed.model = parsed.model_tag
    config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    return {
        "sequences": config.scheduler_config.max_num_seqs,
        "sleeps": config.model_config.enable_sleep_mode,
        "length": config.model_config.max_model_len,
        "parallel": config.parallel_config.tensor_parallel_size,
    }


def of_evaluation(model: Path) -> dict[str, object]:
    """The configuration of the engine that an evaluation starts."""
    options = llm_options(EngineOptions(str(model), 1024, 8192, 0.6, 1.0, False))
    config = EngineArgs(**options).create_engine_config(usage_context=UsageContext.LLM_CLASS)
    return {"sequences": config.scheduler_config.max_num_seqs, "length": config.model_config.max_model_len}


def main() -> None:
    for kind in KINDS:
        card = card_of(kind)
        assert card is not None
        PRETENDED.append(card)
        for shape, parallel in PARALLEL.items():
            model = Path(sys.argv[1]) / shape
            line = {"card": kind, "shape": shape, **of_rollouts(model, parallel)}
            if parallel == 1:
                line["evaluation"] = of_evaluation(model)
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
