"""One run as one tree: each section with its keys, their defaults and what they may be. No torch.

`Run` is what a recipe, a hardware profile and ``--set`` describe together (`training.config.compose`). The class
of the algorithm validates the section ``method``. A key of verl has verl's name.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NoReturn, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from core.errors import InputError
from training.algorithms.prompt_order import EASY_FIRST, ORDERS, SHUFFLE
from training.config.kinds import must_be
from training.config.moved import hint, nearest
from training.config.verl_keys import is_fixed, is_reference, is_verls, kind_of, kinds, leaf_values, sections, within

SEPARATE = "separate_async"  # the rollouts that have GPUs of their own
KERNELS = ("flash_attention_2", "flash_attention_4", "sdpa", "sdpa_packed", "flex_attention", "eager")
DTYPES = ("bfloat16", "float32")  # of the finished policy
OFFLOADS = ("none", "rollout", "always")
MODEL, OPTIM = "actor_rollout_ref.model", "actor_rollout_ref.actor.optim"
VALIDATION = ("data.val_files", "data.val_max_samples", "data.val_batch_size", "actor_rollout_ref.rollout.val_kwargs")
# Keys, or sections, that are read with another value of a key only than this one, which is its default.
SWITCHED_OFF = {
    (f"{MODEL}.lora_rank", 0): tuple(f"{MODEL}.{name}" for name in ("lora_alpha", "target_modules", "exclude_modules")),
    (f"{MODEL}.tiled_mlp.enabled", False): (f"{MODEL}.tiled_mlp.num_shards",),
    (f"{OPTIM}.lr_scheduler_type", "constant"): (f"{OPTIM}.min_lr_ratio", f"{OPTIM}.num_cycles"),
    ("trainer.test_freq", -1): VALIDATION,
    ("reward.reward_manager.source", "register"): ("reward.reward_manager.module",),
}

Flag = Annotated[bool, must_be("true or false")]
Text = Annotated[str, must_be("a text")]
TextOrNull = Annotated[str | None, must_be("a text, or null")]
Count = Annotated[int, must_be("a whole number from 1")]
CountOrNull = Annotated[int | None, must_be("a whole number from 1, or null")]
CountOrAuto = Annotated[int | Literal["auto"], must_be("auto, or a whole number from 1")]
Natural = Annotated[int, must_be("a whole number from 0")]
FromMinusOne = Annotated[int, must_be("a whole number from -1")]
Share = Annotated[float, must_be("a number from 0 up to 1")]
Mapped = Annotated[dict[str, Any], must_be("a mapping of its keys")]
Listed = Annotated[list[str], must_be("a list")]


def one_of(*names: str, auto: bool = False) -> BeforeValidator:
    """Return the check of a key with one of ``names``."""
    return must_be(f"{'auto, or ' if auto else ''}one of {', '.join(names)}")


class Section(BaseModel):
    """A frozen section of the configuration, which refuses unknown keys and values of another kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Sync(Section):
    """Rollouts are drawn from the weights of their step, on the actor's devices."""

    type: Literal["sync"] = "sync"


class Asynchronous(Section):
    """Rollouts of later steps are drawn while the actor trains."""

    # The largest age of a token: how often weights were sent to vLLM between those that sampled it and its step's.
    max_staleness: Natural = 1
    stale_samples: Annotated[str, one_of("wait", "drop")] = "wait"  # what happens to groups that would get older


class ColocateAsync(Asynchronous):
    """On the actor's devices."""

    type: Literal["colocate_async"] = "colocate_async"


class SeparateAsync(Asynchronous):
    """On separate GPUs."""

    type: Literal["separate_async"] = "separate_async"
    gpus: CountOrAuto = "auto"  # per node, besides trainer.n_gpus_per_node; auto: what is left, or half of them


class Rollout(Section):
    """How a sample is drawn."""

    precision: Annotated[str, one_of("auto", "float32", "bfloat16", "fp8", "int4")] = "bfloat16"  # of vLLM
    seeded: Flag = True  # each sample by (seed, step, prompt, sample): a resumed run draws what an unbroken one does


class Data(Section):
    """The prompts of a run; batches and lengths are the recipe's."""

    train_batch_size: Count = 1024  # prompts per step
    max_prompt_length: Count = 512
    max_response_length: Count = 512
    sample_target_ratio: Share = 1.0  # share of prompts that use their target, by a hash of seed and prompt
    train_max_samples: FromMinusOne = -1
    val_files: TextOrNull = None  # problems to validate on; null: val_max_samples of the targets', set aside
    val_max_samples: Count = 256
    val_batch_size: CountOrNull = None
    seed: Natural | None = None  # null: that of the run
    order: Annotated[str, one_of(*ORDERS)] = SHUFFLE  # easy_first: by the targets' column pass_rate, the highest first
    shuffle: Flag = True  # false: as the file has them
    dataloader_num_workers: Natural = 8
    use_shm: Flag = False
    chat_template_kwargs: Mapped = {}  # arguments of the model's chat template, as {enable_thinking: false}


class RewardFunction(Section):
    """The function that scores a response."""

    path: Text = "pkg://training.verl_hooks.reward"
    name: Text = "compute_score"  # or compute_score_whole_text: any answer after the first </think>, as published
    reward_kwargs: Mapped = {}


class RewardModule(Section):
    """The file of a reward manager with source=importlib."""

    path: TextOrNull = None
    name: Text = "custom_reward_manager"


class RewardManager(Section):
    """The class that calls the function."""

    source: Annotated[str, one_of("register", "importlib")] = "register"
    name: Text = "naive"
    module: RewardModule = RewardModule()


class Reward(Section):
    """What a response scores."""

    truncated: Annotated[str, one_of("zero", "by_text")] = "zero"  # a cut response; by_text: as any other
    num_workers: CountOrAuto = 8
    custom_reward_function: RewardFunction = RewardFunction()
    reward_manager: RewardManager = RewardManager()


class Trainer(Section):
    """The length of a run, its devices and what it writes."""

    device: Annotated[str, one_of("cpu", "cuda")] = "cuda"
    nnodes: Count = 1
    n_gpus_per_node: CountOrAuto = 8
    total_training_steps: CountOrNull = None
    total_epochs: Count = 1_000_000  # counts where total_training_steps is null
    save_freq: Count = 50
    test_freq: FromMinusOne = -1  # steps between validations; -1: none
    project_name: Text = "luffy"
    experiment_name: Text = "run"
    rollout_data_dir: TextOrNull = "${paths.run}/rollouts"
    validation_data_dir: TextOrNull = None
    checkpoint_callback_class: TextOrNull = None


class Machine(Section):
    """How the processors and GPUs are used."""

    attention: Annotated[str, one_of(*KERNELS, auto=True)] = "sdpa"  # kernel of the actor
    offload: Annotated[str, one_of(*OFFLOADS, auto=True)] = "none"  # when the state leaves the GPU
    compute: Annotated[str, one_of("auto", "float32", "bfloat16")] | None = None  # what the actor computes in, on a CPU
    threads: CountOrAuto | None = None  # of each process of the actor and of vLLM, on a CPU
    environment: Mapped = {}  # of every process of the job


class PolicyOptions(Section):
    """The finished policy."""

    dtype: Annotated[str, one_of(*DTYPES)] = "bfloat16"
    source: Annotated[str, one_of("last", "best")] = "last"  # checkpoint; best: by a validation


class Execution(Section):
    """How a run is carried out, not what it computes: no part of its identity."""

    keep_checkpoints: Count = 2  # the newest ones
    stall_seconds: Annotated[float, must_be("a number above 0")] = 3600  # a run without a step for this long is stopped
    trackers: Listed = ["tensorboard"]
    push_to_hub: TextOrNull = None  # repository that the finished policy is uploaded to
    license: TextOrNull = None  # of the policy, for its card; null: the one in the base model's card


class FirstStage(Section):
    """A training before this one, which then starts from its policy."""

    recipe: Text
    heldout: Flag = True  # whether this one trains on the held-out targets; false: on those of the first stage
    set: Listed = []  # overrides of the first stage alone; --set changes both


class Run(Section):
    """A training: everything that a user can set."""

    seed: Natural = 0
    method: Mapped = {}  # its type, and the fields of the class (training.methods)
    first_stage: FirstStage | None = None
    rollouts: Annotated[Sync | ColocateAsync | SeparateAsync, Field(discriminator="type")] = Sync()
    rollout: Rollout = Rollout()
    data: Data = Data()
    reward: Reward = Reward()
    trainer: Trainer = Trainer()
    machine: Machine = Machine()
    policy: PolicyOptions = PolicyOptions()
    run: Execution = Execution()
    verl: dict[str, Any] = {}  # verl's keys by their dotted names, each in verl_keys.yaml

    @field_validator("verl")
    @classmethod
    def _check_kinds(cls, values: dict[str, Any]) -> dict[str, Any]:
        for key, value in values.items():
            kind = kind_of(key)
            if kind and not is_reference(value) and not kind.holds(value):
                raise ValueError(f"{key}: got {value!r:.80}, expected {kind.text}")
        return values

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        ours = self.model_dump(exclude_unset=True, exclude={"verl", "method"})
        given = dict(leaf_values(ours)) | self.verl
        for (switch, off), keys in SWITCHED_OFF.items():
            for key in (key for key in given if within(key, keys) and given[key] is not None):
                if given.get(switch, off) == off:
                    raise ValueError(
                        f"{key}={given[key]} has no effect with {switch}={off}: set another {switch}, or leave the "
                        "first out"
                    )
        if self.data.order == EASY_FIRST and self.data.train_max_samples > 0:
            _contradict(
                ("data.order", EASY_FIRST),
                ("data.train_max_samples", self.data.train_max_samples),
                "the sample would be the easiest problems: give fewer targets instead (split.max_rows)",
            )
        if self.policy.source == "best" and self.trainer.test_freq < 1:
            _contradict(
                ("policy.source", "best"),
                ("trainer.test_freq", self.trainer.test_freq),
                "the best checkpoint has the highest score of a validation: set the steps between them",
            )
        return self

    def unread(self) -> list[str]:
        """Return the keys of verl's file that no recorded run reads; on a CPU there is none."""
        return [key for key in self.verl if kind_of(key) is None]


def _contradict(first: tuple[str, Any], second: tuple[str, Any], why: str) -> NoReturn:
    pair = " and ".join(f"{key}={value}" for key, value in (first, second))
    raise ValueError(f"{pair} contradict each other: {why}")


class Mistake(InputError):
    """A key that no run has, or a value that it cannot have."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def validate(values: Mapping[str, Any]) -> Run:
    """Return the tree of the nested ``values``, in which verl's keys stand among ours.

    Raises:
        Mistake: an unknown key, a value that is not allowed, or two that exclude each other. The message starts with
            the key, and says what was expected or which key is nearest.
    """
    ours = {key: value for key, value in values.items() if key not in sections()}
    theirs = {key: value for key, value in values.items() if key in sections()}
    for section, value in theirs.items():
        if not isinstance(value, Mapping):
            raise Mistake(section, f"{section}: got {value!r:.80}, expected a mapping of its keys")
    try:
        run = Run.model_validate({**ours, "verl": dict(leaf_values(theirs))})
    except ValidationError as error:
        raise _mistake(error) from None
    for key in run.verl:
        unread = kind_of(key) is None and (run.trainer.device == "cpu" or not is_verls(key))
        if unread or is_fixed(key) or hint(key):
            raise Mistake(key, unknown(key))
    return run


def _mistake(error: ValidationError) -> Mistake:
    """Return what is wrong with the first unknown key, or else with the first value that is not allowed."""
    errors = error.errors()
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    path, given, mode = [str(part) for part in first["loc"]], first["input"], None
    if path[:1] == ["rollouts"] and len(path) > 1:
        mode = path.pop(1)  # the tag of the union
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        key = next(leaf_values({key: given}))[0]
        return Mistake(key, unknown(key, mode))
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        names = ", ".join(modes())
        return Mistake(key, f"{key}.type: got {given.get('type')!r:.80}, expected one of {names}")
    if first["type"] in ("model_type", "model_attributes_type"):
        return Mistake(key, f"{key}: got {given!r:.80}, expected a mapping of its keys")
    message = first["msg"].removeprefix("Value error, ")
    if path[:1] in ([], ["verl"]):  # the message names the key
        return Mistake(message.partition(":")[0].partition("=")[0], message)
    return Mistake(key, f"{key}: {message}")


def unknown(key: str, mode: str | None = None) -> str:
    """Return the message for a ``key`` that no run has; ``mode``: the type of the section rollouts, if it is there."""
    name = key.rpartition(".")[2]
    if others := [other for other, kind in modes().items() if mode and name in kind.model_fields]:
        return f"{key} has no effect with rollouts.type={mode}: set that to {' or '.join(others)}, or leave the key out"
    if text := hint(key):
        return f"{key} cannot be set: {text}"
    if is_fixed(key):
        return f"{key} cannot be set, because every run sets it itself"
    guess = nearest(key, settable())
    meant = f": did you mean {guess!r}?" if guess else ": luffy train --print-config prints those there are"
    return f"{key} cannot be set, because no run reads it{meant}" if is_verls(key) else f"unknown key {key!r}{meant}"


def modes() -> dict[str, type[Section]]:
    """Return the classes of the section rollouts by their types."""
    return {kind.model_fields["type"].default: kind for kind in get_args(Run.model_fields["rollouts"].annotation)}


@cache
def settable() -> list[str]:
    """Return every key that can be set, by its dotted name."""
    return sorted({*(key for key, _ in fields()), *kinds()})


def fields(kind: type[BaseModel] | None = None, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted name and the field of each of our keys, without the sections."""
    kind = kind or Run
    for name, field in kind.model_fields.items():
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        inner = [part for part in parts if issubclass(part, BaseModel)]
        for section in inner:
            yield from fields(section, f"{prefix}{name}.")
        if not inner and name != "verl":
            yield f"{prefix}{name}", field
