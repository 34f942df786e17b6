"""Compose and validate the configuration of a training run: verl's defaults, ours, a recipe, hardware, overrides.

Needs OmegaConf, so it runs in the training interpreter, but neither torch nor verl is imported: a mistake in a key or a
value is reported within a second, before anything starts.
"""

import importlib.util
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from core import PROJECT
from core.errors import InputError, first_line, validated
from core.files import read_yaml
from core.model.prompts import CHAT, TEMPLATE_KWARGS, Template
from core.plugins.config_files import (
    HARDWARE,
    RECIPES,
    SELF,
    config_file,
    config_files,
    first_stage,
    is_shipped,
    located_recipe,
    recipe_name,
)
from core.plugins.user_code import import_problem, load_function
from training.algorithms.options import MixedPolicyOptions, RolloutOptions
from training.algorithms.registry import KEYS, METHODS, TRACKERS, outside_function
from training.algorithms.schedules.entropy import EntropyController
from training.config.keys import (
    OPEN,
    check_key,
    check_switches,
    file_of,
    leaf_values,
    leaves,
    nearest,
    rules,
    within,
)
from training.config.ranges import check_ranges
from training.config.rollout_modes import lay_out_rollouts
from training.config.teacher_settings import MODEL as TEACHER
from training.config.teacher_settings import check_distillation, lengthen_context, located
from training.config.value_checks import check_groups, check_kinds, check_needed, check_values

if TYPE_CHECKING:
    from training.methods.method import Method

CONFIG = PROJECT / "training" / "config"
FIRST_STAGE = "first_stage"  # a section that is null in most recipes
PLAIN = "on_policy"  # has the keys of every recipe

# For two updates per batch; an odd number has no half, so such a batch is one update.
OmegaConf.register_new_resolver("half", lambda number: number // (2 - number % 2), replace=True)
OmegaConf.register_new_resolver("at_least", lambda least, *parts: max(least, sum(parts)), replace=True)

# What the classes of the options write of every configuration. The clip range is verl's own key, in one place.
DEFAULTS = OmegaConf.create(
    {
        "mixed": MixedPolicyOptions().model_dump(exclude={"clip_ratio"}),
        **RolloutOptions().model_dump(),
        "chat_template_kwargs": dict(TEMPLATE_KWARGS),
    }
)


@cache
def verl_defaults() -> DictConfig:
    """Return verl's defaults of a training, from the file that verl ships with its parts merged."""
    file = verl_config_folder() / "_generated_ppo_trainer.yaml"
    return OmegaConf.create(yaml.load(file.read_bytes(), yaml.CSafeLoader))


def verl_config_folder() -> Path:
    """Find verl's folder of configurations without importing verl (which takes seconds)."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("this interpreter has no verl: run `make setup`, and use .venv-train/bin/python")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


def compose_run(recipe: str, hardware: str, overrides: Sequence[str], *, run: Path) -> DictConfig:
    """Return the resolved configuration of one run in folder ``run``.

    Raises:
        InputError: no such recipe, hardware profile or key; a value that is not allowed; a key that nothing reads; two
            values that contradict each other. The message names the key, and what to do.
    """
    _check_files(recipe, hardware)
    given = [_parse(text) for text in overrides]
    keys = [leaf for key, value in given for leaf in leaves({key: value})]
    for key in keys:
        check_key(key)
    config = compose_files(recipe, hardware, given, run=run)
    unchanged = _composed(recipe, hardware)
    check_kinds(keys, config, unchanged)
    try:
        check_needed(config)
        check_ranges(lambda key: OmegaConf.select(config, key, default="auto"))  # not every hardware has every key
    except OmegaConfBaseException as error:
        raise InputError(f"configuration: {str(error).splitlines()[0]}") from error
    if config.actor_rollout_ref.rollout.max_model_len is None:
        config.actor_rollout_ref.rollout.max_model_len = config.data.max_prompt_length + config.data.max_response_length
    try:
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        raise InputError(f"configuration: {str(error).splitlines()[0]}") from error
    for key in keys:
        if not _is_undone(key, config, unchanged):
            check_switches(key, lambda switch: OmegaConf.select(config, switch))
    _locate(config, Path())
    method_path(config)
    _check_stages(config, recipe)
    check_values(config)
    options = mixed_options(config)
    check_groups(config, options)
    for name in ("off_policy_reshape", "on_policy_reshape"):  # p_div_p_0.1 is recorded as what it says
        config.mixed[name], config.mixed[f"{name}_gamma"] = getattr(options, name), getattr(options, f"{name}_gamma")
    check_distillation(config)
    lengthen_context(config)
    lay_out_rollouts(config)
    if options.srft.use:
        config.actor_rollout_ref.actor.calculate_entropy = True  # it weighs the losses, whatever its bonus is
    if options.replay.use:
        config.data.gen_batch_size = 1  # one prompt at a time, because some of a batch are not the dataset's next
    EntropyController(options.adaptive_entropy, config.actor_rollout_ref.actor.entropy_coeff)
    return config


def compose_files(recipe: str, hardware: str, given: Iterable[tuple[str, Any]], *, run: Path) -> DictConfig:
    """Compose the files, and write the ``given`` values of keys; references are unresolved.

    Raises:
        InputError: there is no such key.
    """
    config = deepcopy(_composed(recipe, hardware))
    config.paths.run = str(run)
    for key, value in given:
        for leaf in leaves({key: value}):
            if not (_has(config, leaf) or within(leaf, OPEN) or (leaf != key and within(leaf, (FIRST_STAGE,)))):
                raise InputError(_unknown(leaf, recipe, hardware, " in the overrides"))
        OmegaConf.update(config, key, value, merge=True, force_add=within(key, OPEN) is not None)
    return config


def _has(config: DictConfig, key: str) -> bool:
    values, name = _place(config, key)
    return isinstance(values, DictConfig) and name in values


def _place(config: DictConfig, key: str) -> tuple[Any, str]:
    """Return the section of ``key``, and its name in it."""
    section, _, name = key.rpartition(".")
    return (OmegaConf.select(config, section) if section else config), name


@cache
def _composed(recipe: str, hardware: str) -> DictConfig:
    """Return the composed files; read them, and copy them before you change them."""
    try:
        files = [*_layers(RECIPES, recipe), *_layers(HARDWARE, hardware)]
        config = OmegaConf.merge(verl_defaults(), DEFAULTS, OmegaConf.load(CONFIG / "train.yaml"), *files)
    except OmegaConfBaseException as error:
        raise InputError(f"configuration of recipe {recipe!r}: {str(error).splitlines()[0]}") from error
    assert isinstance(config, DictConfig)
    config.paths.project = str(PROJECT)
    OmegaConf.set_struct(config, True)
    return config


def _layers(folder: str, name: str, beside: Path | None = None) -> list[DictConfig]:
    """Return the content of a file of `RECIPES` or `HARDWARE` and of its parents, the one that wins last."""
    file = config_file(folder, name, beside=beside)
    content = OmegaConf.load(file) if is_shipped(file) else _located(file)
    assert isinstance(content, DictConfig)
    parents = list(content.pop("defaults", []))
    order = parents if SELF in parents else [*parents, SELF]
    return [part for entry in order for part in ([content] if entry == SELF else _layers(folder, entry, file))]


def _located(file: Path) -> DictConfig:
    """Return the content of a user's recipe, whose files, functions and first stage have absolute paths.

    Raises:
        InputError: there is no such file.
    """
    recipe = OmegaConf.load(file)
    assert isinstance(recipe, DictConfig)
    _locate(recipe, file.parent, f"recipe {file}: ")
    if stage := OmegaConf.select(recipe, "first_stage.recipe"):
        OmegaConf.update(recipe, "first_stage.recipe", located_recipe(stage, file))
    return recipe


def _locate(config: DictConfig, folder: Path, where: str = "") -> None:
    """Make the paths of files, of functions and of a teacher absolute: a training does not run in the user's folder.

    A relative path starts from ``folder``.
    """
    for key, value in leaf_values(OmegaConf.to_container(config, resolve=False)):
        path = None
        if key in KEYS:
            path = _function(key, value, folder, where)
        elif key == "run.trackers" and isinstance(value, list):
            path = [outside_function(key, name, folder, where, TRACKERS) or name for name in value]
        elif key == TEACHER and value:
            path = located(value, folder)
        elif file := file_of(key, value, folder):
            path = str(file)
        if path is not None:
            OmegaConf.update(config, key, path)


def _function(key: str, value: object, folder: Path, where: str) -> str | None:
    """Return the function of a key. A file that is gone counts once the overrides have left it in the configuration."""
    try:
        return outside_function(key, value, folder, where)
    except InputError:
        if where and isinstance(value, str) and ".py:" in value:
            return str((folder / value).absolute())
        raise


@cache
def _check_files(recipe: str, hardware: str) -> None:
    """Raise InputError for a key of the two files, or of their parents, that nothing reads."""
    for group, name in ((RECIPES, recipe), (HARDWARE, hardware)):
        for file in config_files(group, name):
            for key in leaves(read_yaml(file, "configuration")):
                check_key(key, f"{Path(group).name} {file.stem}")
    files = [*config_files(RECIPES, recipe)]
    parent = next((file.stem for file in files if is_shipped(file)), PLAIN)
    for file in (file for file in files if not is_shipped(file)):
        _check_keys_exist(file, parent, hardware)
        values = _composed(str(file), hardware)
        for key in leaves(read_yaml(file, "recipe")):
            check_switches(key, partial(OmegaConf.select, values), f"recipe {file}")


def _check_keys_exist(recipe: Path, parent: str, hardware: str) -> None:
    """Raise InputError for a key of a user's recipe that its shipped ``parent`` does not have: a typing error."""
    known, values = _composed(parent, hardware), OmegaConf.load(recipe)  # to which 1e-6 is a number
    for key in leaves(read_yaml(recipe, "recipe")):
        if key == "defaults" or within(key, (*OPEN, FIRST_STAGE)):
            continue
        if not _has(known, key):
            raise InputError(f"recipe {recipe}: {_unknown(key, parent, hardware)}")
        if not _has(values, key):
            section, _, name = key.rpartition(".")
            raise InputError(f"recipe {recipe}: {key}: a key has no dots in a file: write {name} below {section}")
        if not OmegaConf.is_interpolation(*_place(values, key)):
            check_kinds([key], values, known, f"recipe {recipe}: ")


def mixed_options(config: DictConfig) -> MixedPolicyOptions:
    """Return the validated section ``mixed`` of a run, with verl's clip range; InputError names the option at fault."""
    actor, values = config.actor_rollout_ref.actor, OmegaConf.to_container(config.mixed)
    return MixedPolicyOptions.from_mapping(
        {"clip_ratio": actor.clip_ratio, **values}, n=config.actor_rollout_ref.rollout.n
    )


def method_of(config: DictConfig) -> "Method":
    """Return the method of a run.

    Raises:
        InputError: its class cannot be imported or is none, or it has no such options.
    """
    from training.methods.method import Method, RunValues  # here: it imports torch

    actor, rollout, path = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, method_path(config)
    try:
        method = load_function(path)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise InputError(f"method.type: {path}: {import_problem(path, error)}") from error
    if not isinstance(method, type) or not issubclass(method, Method):
        raise InputError(f"method.type: {path}: expected a subclass of training.methods.method.Method")
    run = RunValues(
        mixed=mixed_options(config),
        limit=config.data.max_response_length,
        n=rollout.n,
        entropy_coeff=actor.entropy_coeff,
        kl_loss=(actor.kl_loss_coef, actor.kl_loss_type) if actor.use_kl_loss else None,
    )
    fields = {name: value for name, value in OmegaConf.to_container(config.method).items() if name != "type"}
    return validated(method, {"run": run, **fields}, "method.")


def method_path(config: DictConfig) -> str:
    """Return ``module:class`` of the method of a run; InputError if there is none of its name."""
    try:
        return METHODS.find(config.method.type)
    except ValueError as error:
        raise InputError(f"method.type: {error}") from None


def chat_template(config: DictConfig) -> Template:
    """Return the chat template of a run, with the arguments that ``chat_template_kwargs`` gives it."""
    return replace(CHAT, kwargs=OmegaConf.to_container(config.chat_template_kwargs))


def _is_undone(key: str, config: DictConfig, unchanged: DictConfig) -> bool:
    """Return whether an option of the recipe has its default again, which a run without its reader may set."""
    default, value = OmegaConf.select(DEFAULTS, key), OmegaConf.select(config, key)
    return key.startswith("mixed.") and value == default != OmegaConf.select(unchanged, key)


def _check_stages(config: DictConfig, recipe: str) -> None:
    if config.first_stage is not None and first_stage(recipe) is None:
        raise InputError(
            f"first_stage: the recipe {recipe_name(recipe)} has one stage, and an override cannot add another: write a "
            "recipe of your own with first_stage: {recipe: NAME, set: []}"
        )


def _parse(text: str) -> tuple[str, Any]:
    """Return the key of an override, and its value, which is YAML.

    Raises:
        InputError: it is unreadable, or names a file within a section.
    """
    key, equals, value = text.partition("=")
    try:
        parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]), resolve=False)["value"]
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise InputError(f"--set {text}: expected a value in YAML ({first_line(error)}): put it in quotes") from error
    if not key or not equals:
        raise InputError(f"--set {text}: expected KEY=VALUE")
    for leaf in leaves({key: parsed}):
        if leaf in (*rules().files, TEACHER) and leaf != key:
            raise InputError(f"--set {key}: give {leaf}=FILE by itself, so that the run knows the file's content")
    return key, parsed


def _unknown(unknown: str, recipe: str, hardware: str, where: str = "") -> str:
    """Name the key that somebody means who wrote the ``unknown`` one, which ``recipe`` does not have."""
    config = OmegaConf.to_container(_composed(recipe, hardware), resolve=False)
    candidates = [key for key in leaves(config) if not within(key, rules().refused) and not key.endswith("._target_")]
    if guess := nearest(unknown, candidates, _common_keys()):
        return f"unknown key {unknown!r}{where}: did you mean {guess!r}?"
    section = unknown.rpartition(".")[0]
    siblings = [key.removeprefix(f"{section}.") for key in candidates if section and key.startswith(f"{section}.")]
    hint = f"{section} has {', '.join(siblings)}" if siblings else "luffy train --print-config prints those there are"
    return f"unknown key {unknown!r}{where}: {hint}"


def _common_keys() -> set[str]:
    """Return the keys that our own files set."""
    files = [CONFIG / "train.yaml", *CONFIG.glob("recipe/*.yaml"), *CONFIG.glob("hardware/*.yaml")]
    return {key for file in files for key in leaves(OmegaConf.to_container(OmegaConf.load(file), resolve=False))}
