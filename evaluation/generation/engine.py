"""One vLLM engine in the process that draws samples; only the training interpreter imports this module.

Every sample is a separate request with its own seed, so that it is the same in any order, batch or replica. Prefix
caching lets the samples of a prompt share its computation.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError, first_line
from core.machine.loopback import SINGLE_NODE
from core.machine.processor import compute_dtype, computes_on_cpu, multiplies_bfloat16
from core.model.prompts import CHAT, Template
from core.model.weights import bfloat16_bytes
from evaluation.generation.requests import Beginning, Completion
from grading.tools.settings import ToolSettings

CPU_SEQUENCES = 64  # most sequences at once on a CPU; more would only need more cache
CPU_TOKENS = 4096  # most prompt tokens that start in one step
CPU_CACHE_BYTES = (64 << 20, 4 << 30)  # bounds of the KV cache on a CPU

# No hub; on a CPU one process and no compiler, which turns 50 s of loading into 3 s.
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
# FlashInfer compiles its sampler with a CUDA toolkit, and vLLM leaves it aside where every request has a seed.
OWN_SAMPLER = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
OWN_REDUCE = {"fuse_allreduce_rms": False}  # FlashInfer's, between GPUs that share an engine, needs the toolkit, too
ON_CPU = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


@dataclass(frozen=True)
class EngineOptions:
    """The settings that an engine needs before it starts.

    ``longest_prompt`` and ``max_tokens`` (of a response) count tokens; ``tensor_parallel`` counts the GPUs that share
    the model, and ``fair_share`` is the number of requests that the engine may hold while others could take them. With
    ``log_probs``, completions have their tokens and log-probabilities by the model itself, whatever the
    temperature. With ``tools``, requests of episodes may call them, in the format of the ``template``
    (`evaluation.generation.episodes`).
    """

    model: str
    longest_prompt: int
    max_tokens: int
    temperature: float
    top_p: float
    trust_remote_code: bool
    tensor_parallel: int = 1
    fair_share: int | None = None
    log_probs: bool = False
    tools: ToolSettings | None = None
    template: Template = CHAT


class EngineRequest(NamedTuple):
    """One sample, or turn of an ``episode``, to draw: the caller's ``number`` of it, the prompt's ``tokens``, its seed.

    ``max_tokens``: of the response; None: as the engine's options say.
    """

    number: int
    tokens: tuple[int, ...]
    seed: int
    max_tokens: int | None = None
    episode: Beginning | None = None


def prepare_environment() -> None:
    """Set the variables that vLLM reads when it is imported, unless you have set them."""
    for name, value in (OFFLINE | OWN_SAMPLER | SINGLE_NODE | (ON_CPU if computes_on_cpu() else {})).items():
        os.environ.setdefault(name, value)


def context_limit(model: str, *, trust_remote_code: bool) -> int:
    """Return the largest number of tokens, prompt and response together, that the model supports."""
    return _config(model, trust_remote_code).max_position_embeddings


def attention_heads(model: str, *, trust_remote_code: bool) -> int:
    """Return the number of attention heads per layer, which the GPUs of an engine share evenly."""
    return _config(model, trust_remote_code).num_attention_heads


class Engine:
    """A loaded model; ``llm`` is vLLM's."""

    def __init__(self, options: EngineOptions) -> None:
        prepare_environment()
        from vllm import LLM

        self._options = options
        self.llm = LLM(**llm_options(options))
        self._engine = self.llm.llm_engine

    def complete(self, groups: Iterable[Sequence[EngineRequest]]) -> Iterator[tuple[int, Completion]]:
        """Yield (number, completion) of each request as it finishes. A prompt must be shorter than the context.

        ``groups`` hold the requests of a prompt, and may be shared with other engines: a group is taken when this
        engine has room for it.
        """
        remaining = iter(groups)
        most = self._engine.vllm_config.scheduler_config.max_num_seqs
        waiting: set[int] = set()
        while True:
            while len(waiting) < min(most, self._options.fair_share or most) and (group := next(remaining, None)):
                self._add(group)
                waiting |= {request.number for request in group}
            if not waiting:
                return
            assert self._engine.has_unfinished_requests(), f"vLLM left {len(waiting)} requests unanswered"
            # The engine's own loop instead of LLM.generate, which returns only when everything is done.
            for output in self._engine.step():
                if output.finished:
                    sample, number = output.outputs[0], int(output.request_id)
                    waiting.remove(number)
                    yield number, self._completion(sample)

    def _completion(self, sample: Any) -> Completion:
        tokens = list(sample.token_ids)
        completion = Completion(sample.text, len(tokens), str(sample.finish_reason))
        if not self._options.log_probs:
            return completion
        log_probs = [step[token].logprob for token, step in zip(tokens, sample.logprobs, strict=True)]
        return completion._replace(token_ids=tokens, log_probs=log_probs)

    def _add(self, group: Sequence[EngineRequest]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        for request in group:
            parameters = SamplingParams(
                temperature=self._options.temperature,
                top_p=self._options.top_p,
                max_tokens=request.max_tokens or self._options.max_tokens,
                seed=request.seed,
                logprobs=0 if self._options.log_probs else None,  # log-probabilities of the sampled tokens only
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            prompt = {"type": "token", "prompt_token_ids": list(request.tokens)}
            self._engine.add_request(str(request.number), prompt, parameters)


def llm_options(options: EngineOptions) -> dict[str, Any]:
    """Return the arguments of vllm.LLM for ``options`` on this machine."""
    config = _config(options.model, options.trust_remote_code)
    context = min(config.max_position_embeddings, options.longest_prompt + options.max_tokens)
    arguments: dict[str, Any] = {
        "model": options.model,
        "max_model_len": context,
        "trust_remote_code": options.trust_remote_code,
        "enable_prefix_caching": True,
    }
    if not computes_on_cpu():
        parallel = {"tensor_parallel_size": options.tensor_parallel, "distributed_executor_backend": "mp"}
        parallel["compilation_config"] = {"pass_config": OWN_REDUCE}
        return arguments | {"dtype": "bfloat16"} | (parallel if options.tensor_parallel > 1 else {})
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dtype = compute_dtype(bfloat16_bytes(Path(options.model)) / 2, bfloat16=multiplies_bfloat16())
    per_token = 2 * config.num_hidden_layers * heads * head * (2 if dtype == "bfloat16" else 4)  # keys and values
    low, high = CPU_CACHE_BYTES
    return arguments | {
        "dtype": dtype,
        "enforce_eager": True,
        "max_num_seqs": CPU_SEQUENCES,
        # On a CPU vLLM ends when the prompt of a request with a seed is split over two steps.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(CPU_TOKENS, context),
        "kv_cache_memory_bytes": min(high, max(low, per_token * (context + 128) * CPU_SEQUENCES)),
    }


def _config(model: str, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model, trust_remote_code=trust_remote_code, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(
            f"model {model}: transformers cannot read its config.json ({first_line(error)}): take another model, or "
            "let code of its folder run (evaluation.trust_remote_code=true) if it has some"
        ) from error
    return config.get_text_config()
