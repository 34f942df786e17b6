"""What installed packages declare by entry points: found by name, and refused in one message."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.plugins.config_files import RECIPES, _packages, config_file, is_shipped
from targets.settings import TargetSettings, build_config
from targets.source_settings import ready_mappings
from training.config.run_checks import check_run
from training.config.to_verl import compose_run

RECIPE = "defaults:\n  - luffy\nmethod:\n  advantage: {use_std: true}\n"


def declare(folder: Path, package: str, *entries: str) -> None:
    """Install a package that declares entry points: ``GROUP NAME = VALUE`` each."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = (entry.split(" ", 1) for entry in entries)
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{point}\n" for group, point in lines))


@pytest.mark.parametrize(("group", "name"), [("luffy.methods", "luffy"), ("luffy.trackers", "tensorboard")])
def test_a_package_cannot_take_a_name_of_the_project(
    group: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, "taker", f"{group} {name} = taker:f")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=f"{group}: taker:f is declared as {name}, which is a name of the project"):
        check_run(compose_run("luffy", "cpu", [], run=tmp_path))


def test_two_packages_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("one", "two"):
        declare(tmp_path, package, f"luffy.methods same = {package}:f")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"luffy\.methods: two packages declare same: .*:f and .*:f; rename one"):
        compose_run("luffy", "cpu", ["method.type=same"], run=tmp_path)
    compose_run("luffy", "cpu", [], run=tmp_path)  # no other name is


def test_a_recipe_of_two_packages_and_one_with_the_name_of_a_shipped_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("here", "there"):
        declare(tmp_path, package, f"luffy.recipes mine = {package}_recipes")
        (tmp_path / f"{package}_recipes").mkdir()
        for file, text in (("__init__.py", ""), ("twin.yaml", RECIPE), ("hpt.yaml", RECIPE)):
            (tmp_path / f"{package}_recipes" / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    _packages.cache_clear()
    try:
        with pytest.raises(InputError, match=r"recipe twin: two packages have it: .*twin\.yaml and .*; give one of"):
            config_file(RECIPES, "twin")
        with pytest.raises(InputError, match=r"recipe .*/here_recipes/hpt\.yaml: hpt is the name of a shipped one"):
            config_file(RECIPES, "hpt")
        assert is_shipped(config_file(RECIPES, "luffy"))
    finally:
        _packages.cache_clear()


def test_a_broken_entry_point_fails_only_what_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"recipes": "nowhere", "methods": "nowhere.methods:mine", "mappings": "x:y", "filters": "nowhere"}
    for group, value in groups.items():
        declare(tmp_path, f"its_{group}", f"luffy.{group} broken = {value}")
    monkeypatch.syspath_prepend(str(tmp_path))
    _packages.cache_clear()
    ready_mappings.cache_clear()
    try:
        assert is_shipped(config_file(RECIPES, "luffy"))
        assert TargetSettings().mapping == "auto"
        for call, group in (
            (lambda: config_file(RECIPES, "broken"), "recipes"),
            (lambda: compose_run("luffy", "cpu", ["method.type=broken"], run=tmp_path), "methods"),
            (lambda: build_config({"mapping": "broken"}), "mappings"),
            (lambda: build_config({"filters": ["broken"]}), "filters"),
        ):
            said = rf"its_{group} declares broken = {groups[group]} in luffy\.{group}, which is not there: expected"
            with pytest.raises(InputError, match=said):
                call()
    finally:
        _packages.cache_clear()
        ready_mappings.cache_clear()
