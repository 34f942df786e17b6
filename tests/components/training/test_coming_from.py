"""docs/coming-from.md: each key on it exists where the page says, and ours does the work of the other."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from method_keys import KEYS
from omegaconf import DictConfig, OmegaConf

from core.errors import InputError
from core.plugins.config_files import RECIPES, config_names
from targets.settings import TargetSettings
from training.__main__ import app
from training.config.compose import compose
from training.config.run import settable
from training.config.to_verl import compose_run, verl_defaults

RUN = Path("run")
ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
LUFFY = yaml.safe_load((ROOT / "tests/golden/original_configuration.yaml").read_text(encoding="utf-8"))
SAME, NONE = "the same", "none"


def rows(section: str) -> list[list[str]]:
    """The cells of the table in a section, without backticks; a star marks keys of the profile."""
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("`", "") for cell in line.split("|")[1:-1]] for line in lines]


def keys_of(section: str) -> list[tuple[str, str]]:
    """(their key, our key) of each row."""
    return [(row[0], row[0] if row[1] == SAME else row[1]) for row in rows(section)]


def in_config(config: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    return isinstance(node, DictConfig) and name in node


@cache
def ours() -> tuple[set[str], set[str]]:
    """The keys of profiles, and the options of ``luffy train``."""
    profile = {f"targets.{name}" for name in TargetSettings.model_fields}
    for file in (ROOT / "pipelines" / "profiles").glob("*.yaml"):
        profile |= {f"{section}.{key}" for section, keys in yaml.safe_load(file.read_text()).items() for key in keys}
    command: Any = typer.main.get_command(app)
    return profile, {part for parameter in command.params for part in parameter.opts}


def is_ours(key: str) -> bool:
    profile, options = ours()
    if key.startswith("--"):
        return key in options
    if key.startswith("method."):
        return key.removeprefix("method.") in KEYS
    return key.removesuffix("*") in profile if key.endswith("*") else key in settable()


@pytest.mark.parametrize(("section", "least"), [("Keys of LUFFY", 35), ("Keys of verl", 35), ("Keys of Trinity", 40)])
def test_every_key_of_ours_exists_and_can_be_set(section: str, least: int) -> None:
    named = [our for _, our in keys_of(section) if our != NONE]
    assert len(named) >= least
    assert [key for key in named if not is_ours(key)] in ([], ["data.train_files"])  # which --targets fills in


def test_every_key_of_luffy_has_a_place() -> None:
    assert not {*LUFFY} - {key for key, _ in keys_of("Keys of LUFFY")}


def test_luffy_seed_has_the_values_of_the_original_implementation() -> None:
    config = compose_run("luffy_seed", "gpu", [], run=RUN)
    # Written otherwise here: no lower clip is null, gamma has a key, versions and estimators have names, files and
    # targets are inputs.
    otherwise = {"off_policy_reshape", "off_policy_min_clip", "adv_estimator", "train_files", "val_files"}
    otherwise |= {"reward_impl_version", "use_off_policy_loss", "clip_upper_bound", "use_adaptive_temperature"}
    otherwise |= {"use_kl_loss", "use_sft_multitask_loss"}
    compared = 0
    for theirs, our in keys_of("Keys of LUFFY"):
        if theirs in LUFFY and theirs.rsplit(".", 1)[-1] not in otherwise and in_config(config, our):
            assert OmegaConf.select(config, our) == LUFFY[theirs], theirs
            compared += 1
    assert compared >= 17
    shaping = config.method.off_policy.reshape.type, config.method.off_policy.reshape.gamma
    assert LUFFY["actor_rollout_ref.actor.off_policy_reshape"] == "{}_{}".format(*shaping)
    assert (config.method.off_policy.min, config.method.advantage.baseline) == (None, "on_policy")
    assert 1 + config.method.on_policy.clip.high == LUFFY["actor_rollout_ref.actor.clip_upper_bound"]


def test_every_key_of_verl_exists_there() -> None:
    named = [row[0] for row in rows("Keys of verl")]
    named.remove("actor_rollout_ref.model.override_config.attn_implementation")  # in a section of the model's own
    defaults = OmegaConf.create(verl_defaults())
    assert not [key for key in named if not in_config(defaults, key)]


def test_a_key_of_verl_is_refused_in_favour_of_the_one_beside_it() -> None:
    for theirs, our in keys_of("Keys of verl"):
        if theirs == our:
            assert theirs in settable()
            continue
        named = "" if our == NONE else re.escape(our.removesuffix("*"))
        with pytest.raises(InputError, match=rf"^{re.escape(theirs)} cannot be set: .*{named}"):
            compose("luffy", "cpu", [f"{theirs}=1"])


def test_the_recipes_on_the_page_exist() -> None:
    named = {recipe for row in rows("Recipes") for recipe in row[0].split(", ")}
    assert len(named) >= 10 and named <= {*config_names(RECIPES)}
