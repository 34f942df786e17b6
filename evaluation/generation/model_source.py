"""The models under evaluation: a Hugging Face folder or hub id, loaded by vLLM, or an OpenAI-compatible endpoint.

Both offer the same: what decides a sample besides its prompt and number, the prompt of a conversation, a record of the
prompts, and the samples themselves.

The default prompt of a checkpoint is the one that it was trained with, as its ``lineage.json`` says. A model that was
not trained here has none, and gets the suite's messages in its own chat template.
"""

import json
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.model.calls import Format
from core.model.lineage_file import MANIFEST, parse_manifest
from core.model.model_folder import HUB_ID, check_model, download_model, model_digest
from core.model.prompts import CHAT, Messages, PromptRecord, Template, prompt_frame, render_prompt, templates
from core.parquet import is_there, read_batches
from evaluation.generation.endpoint import Endpoint, EndpointOptions
from evaluation.generation.requests import Completion, SampleRequest, Sampling
from grading.tools.settings import ToolSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.generation.replicas import Replicas
    from evaluation.generation.sample_cache import SampleCache

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"  # a variable that vLLM reads
TRAINING = "training"  # the prompt template of a checkpoint's own training


def template_names() -> list[str]:
    """Return what `choose_template` accepts."""
    return [TRAINING, *templates()]


def choose_template(name: str, model: Path, kwargs: Mapping[str, Any] | None = None) -> Template:
    """Return the template called ``name`` for the checkpoint in ``model``.

    Args:
        name: one of `template_names`.
        model: the folder of the checkpoint.
        kwargs: arguments of the model's chat template, in addition to those of its training.

    Raises InputError for "training" if the targets that the lineage names are gone, and for
    ``kwargs`` of a template that is a whole prompt.
    """
    template = CHAT if name == TRAINING else templates()[name]
    if template.text is not None:
        if kwargs:
            raise InputError(
                f"chat_template_kwargs: {', '.join(kwargs)}: the prompt template {name} is a whole prompt and no chat "
                "template: leave them out, or choose another template"
            )
        return template
    template = replace(template, kwargs={**training_kwargs(model), **(kwargs or {})})
    return replace(template, name=TRAINING, system=training_system(model)) if name == TRAINING else template


def training_kwargs(model: Path) -> dict[str, Any]:
    """Return the arguments of the chat template that ``model`` was trained with; none if it was not trained here."""
    if not (Path(model) / MANIFEST).is_file():
        return {}
    return parse_manifest(model).config.get("chat_template_kwargs", {})


def training_system(model: Path) -> str | None:
    """Return the system message that ``model`` was trained with ("" for none at all); None if it was not trained here.

    It is the setting with which the targets of the checkpoint's ``lineage.json`` were prepared, else the message of
    their first row. Raises InputError if neither can be read.
    """
    if not (Path(model) / MANIFEST).is_file():
        return None
    targets = parse_manifest(model).targets
    prepared = json.loads(targets.metadata.get("config", "{}"))
    if prepared.get("system_prompt") is not None:
        return prepared["system_prompt"]
    path = targets.locate(Path(model))
    if not is_there(path):
        raise InputError(
            f"{Path(model) / MANIFEST}: it names targets at {path}, which are not there, so the prompt of the "
            f"training is not known; choose the template yourself, one of {', '.join(templates())}"
        )
    rows = next(read_batches(path, 1, ["prompt"])).to_pylist()
    return next((message["content"] for message in rows[0]["prompt"] if message["role"] == "system"), "")


class LocalModel:
    """A model folder, loaded by as many vLLM engines as you ask for."""

    def __init__(
        self,
        folder: Path,
        *,
        template: str = TRAINING,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        checkpoint: str | None = None,
        replicas: int | None = None,
        tensor_parallel: int | None = None,
        trust_remote_code: bool = False,
        tools: ToolSettings | None = None,
    ) -> None:
        """
        Args:
            folder: Hugging Face folder.
            template: name of a prompt template, see `choose_template`.
            chat_template_kwargs: arguments of the model's chat template, in addition to the arguments of its training.
            checkpoint: digest that names the model; by default the digest of its lineage or its files.
            replicas: number of engines; as many as the GPUs allow by default, and one on a CPU.
            tensor_parallel: GPUs per engine; as few as the weights need by default.
            trust_remote_code: run code that the model folder contains.
            tools: those that it may call.

        Raises InputError for an incomplete folder, a template that does not exist, and arguments that it does not read.
        """
        self._template = choose_template(template, folder, chat_template_kwargs)
        check_model(folder, "sample", kwargs=self._template.kwargs)
        self.folder = folder
        self.checkpoint = checkpoint or checkpoint_digest(folder)
        self._replicas, self._tensor_parallel = replicas, tensor_parallel
        self._trust_remote_code, self.tools = trust_remote_code, tools
        if tools and self._template.text is not None:
            raise InputError(f"template: {template} is a whole prompt, which tools cannot continue: choose another one")

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(
                self.folder, trust_remote_code=self._trust_remote_code, local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"model {self.folder}: its tokenizer cannot be loaded ({error}); save it there again"
            ) from error

    @cached_property
    def _calling(self) -> Template:
        """The template of prompts that show the tools."""
        return self.tools.template(self._tokenizer, self._template) if self.tools else self._template

    @property
    def call_format(self) -> Format | None:
        """How its turns call tools; None without any."""
        return self._calling.calls

    @cached_property
    def _plan(self) -> "Replicas":
        from evaluation.generation.replicas import plan_replicas

        return plan_replicas(
            str(self.folder), self._replicas, self._tensor_parallel, trust_remote_code=self._trust_remote_code
        )

    def decisive(self) -> dict[str, Any]:
        """Return the facts that decide a sample besides sampling, prompt and number, as JSON values."""
        from core.machine.processor import computes_on_cpu
        from evaluation.generation.engine import prepare_environment

        prepare_environment()
        return {
            "checkpoint": self.checkpoint,
            "device": "cpu" if computes_on_cpu() else "cuda",
            "tensor_parallel": self._plan.tensor_parallel,  # another number adds up in another order
            "vllm": _vllm_version(),
        }

    def render(self, conversation: Messages, *, calls: bool = False) -> str:
        """Return the prompt of ``conversation``; with ``calls``, it shows the tools."""
        return render_prompt(conversation, self._tokenizer, self._calling if calls else self._template)

    def prompt_record(self, suite: "pa.Table", *, calls: bool = False) -> PromptRecord:
        """Describe the prompt of the samples, and the prompt of the checkpoint's training if it is known.

        That prompt shows no tools, and so it is left out of the record of samples that may call some.
        """
        conversation, tokenizer = suite["prompt"][0].as_py(), self._tokenizer
        template = self._calling if calls else self._template
        try:
            known = bool(tokenizer.chat_template) and training_system(self.folder) is not None
            trained = known and not template.shown_tools
        except InputError:  # the targets are gone, but you named a template: only this record depends on them
            trained = False
        return PromptRecord(
            template.name,
            template.thinking,
            prompt_frame(conversation, tokenizer, template),
            prompt_frame(conversation, tokenizer, choose_template(TRAINING, self.folder)) if trained else None,
        )

    def draw(
        self,
        requests: Sequence[SampleRequest],
        sampling: Sampling,
        samples: "SampleCache",
        *,
        log_probs: bool = False,
    ) -> Generator[tuple[int, Completion], None, None]:
        """(index, completion) in the order in which they finish, stored in ``samples``; a prompt that fills the context
        gets an empty one.
        """
        for number, completion in self._complete(requests, sampling, log_probs):
            samples.add(requests[number].key, completion)
            yield number, completion

    def _complete(
        self, requests: Sequence[SampleRequest], sampling: Sampling, log_probs: bool
    ) -> Generator[tuple[int, Completion], None, None]:
        from evaluation.generation.engine import EngineOptions, EngineRequest, context_limit
        from evaluation.generation.replicas import complete_all

        context = context_limit(str(self.folder), trust_remote_code=self._trust_remote_code)
        groups: dict[str, list[EngineRequest]] = {}
        tokens: dict[str, tuple[int, ...]] = {}
        for number, request in enumerate(requests):
            if request.prompt not in tokens:  # the template has written the special tokens already
                tokens[request.prompt] = tuple(self._tokenizer.encode(request.prompt, add_special_tokens=False))
            if len(tokens[request.prompt]) >= context:
                yield number, Completion("", 0, "length")
            else:
                episode = request.episode
                engine_request = EngineRequest(number, tokens[request.prompt], request.seed, episode=episode)
                groups.setdefault(request.prompt, []).append(engine_request)
        if not groups:
            return
        options = EngineOptions(
            model=str(self.folder),
            longest_prompt=max(len(tokens[prompt]) for prompt in groups),
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            trust_remote_code=self._trust_remote_code,
            tensor_parallel=self._plan.tensor_parallel,
            log_probs=log_probs,
            tools=self.tools,
            template=self._calling,
        )
        yield from complete_all(options, list(groups.values()), self._plan.count)


def open_model(name: str, *, endpoint: EndpointOptions | None = None, **options: Any) -> LocalModel | Endpoint:
    """Return the model called ``name``: a folder, a hub id such as ``Qwen/Qwen2.5-Math-7B@main``, or an endpoint.

    ``options`` are arguments of `LocalModel`; an endpoint renders its own prompts and has its own engines, and takes
    ``endpoint`` and ``tools``.

    Raises InputError if it is none of these, or files of the model are missing or damaged.
    """
    if remote := Endpoint.parse(name):
        if options.get("template", TRAINING) != TRAINING or options.get("chat_template_kwargs"):
            raise InputError(
                f"{name}: an endpoint renders prompts with its own chat template; leave out the template and its "
                "arguments, or send these by the setting endpoint: {extra_body: {chat_template_kwargs: {…}}}"
            )
        return replace(remote, options=endpoint or remote.options, tools=options.get("tools"))
    folder = Path(name).expanduser()
    if not folder.exists() and (hub := HUB_ID(name)):
        folder, _ = download_model(hub["repository"], hub["revision"])
    elif not folder.is_dir():
        raise InputError(f"{name}: no such folder, and not a hub id (owner/name[@revision])")
    return LocalModel(folder, **options)


def checkpoint_digest(model: Path) -> str:
    """Return the digest in the model's ``lineage.json``, or else the digest of its files, as models/base has it."""
    return parse_manifest(model).checkpoint_digest if (Path(model) / MANIFEST).is_file() else model_digest(model)


def _vllm_version() -> str:
    """Return vllm's distribution, its version, and the runner if you chose one: each changes the samples."""
    name = metadata.packages_distributions()["vllm"][0]
    runner = f" {RUNNER}={os.environ[RUNNER]}" if RUNNER in os.environ else ""
    return f"{name} {metadata.version(name)}{runner}"
