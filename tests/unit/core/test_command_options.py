"""Options of a command from its class: the same values from a file, a command line and the settings."""

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from core.cli import run_app
from core.commands import Command, application, option
from core.errors import InputError
from core.settings import Section


class SplitSettings(Section):
    share: float = Field(default=0.1, ge=0, lt=1, description="Share. It is a part.")
    seed: int = Field(default=0, description="Seed.")


taken: list[Command] = []


class TakeOrder(Command):
    """Take an order."""

    everyday = ("split.share",)

    dishes: tuple[str, ...] = option(..., "What to cook.", cli="--dish", metavar="DISH")
    table: int = option(..., "Where to bring it [near].", ge=1, le=9)
    pay: Literal["cash", "card"] = option("cash", "How.")
    hurry: bool = option(False, "Soon.")
    split: SplitSettings = SplitSettings()

    def run(self) -> None:
        taken.append(self)


def order(*arguments: object) -> Command | None:
    app = application("Orders.", (TakeOrder, TakeOrder))
    assert run_app(app, ["take-order", *map(str, arguments)], "waiter") == 0
    return taken[-1] if taken else None


def test_a_file_a_command_line_and_settings_ask_for_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = order("--dish", "soup", "--dish", "pie", "--table", 3, "--pay", "card", "--hurry", "--share", 0.5)
    settings = SplitSettings(share=0.5)
    asked = TakeOrder(dishes=("soup", "pie"), table=3, pay="card", hurry=True, split=settings)
    assert given and given.model_dump() == asked.model_dump()
    assert order("--request", given.write(tmp_path / "order.json")) == asked
    (tmp_path / "luffy.yaml").write_text("split: {seed: 7, share: 0.2}\ntargets: {source: x}\n")
    monkeypatch.setenv("LUFFY__SPLIT__SHARE", "0.3")
    read = order("--dish", "pie", "--table", 1, "--set", "split.share=0.4")
    assert isinstance(read, TakeOrder) and read.split == SplitSettings(share=0.4, seed=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--dish pie", "missing --table; see waiter take-order --help"),
        ("", "missing --dish, --table; see waiter take-order --help"),
        ("--dish pie --table x", "--table: Input should be a valid integer"),
        ("--dish pie --table 10", "--table: Input should be less than or equal to 9 (got '10'); see waiter"),
        ("--dish pie --table 1 --share nan", "--share: split.share: Input should be a finite number"),
        ("--dish pie --table 1 --pay iou", "--pay: Input should be 'cash' or 'card' (got 'iou')"),
        ("--dish pie --table 1 --set split.sede=1", "--set split.sede is not a setting; did you mean seed?"),
        ("--dish pie --table 1 --set model.source=a", "--set model.source: this command reads the sections split"),
        ("--nothing", "No such option: --nothing; see waiter take-order --help"),
    ],
)
def test_a_mistake_names_the_option(arguments: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        order(*arguments.split())
    assert str(caught.value).startswith(message)


def test_an_option_next_to_a_file_is_refused_and_a_wrong_key_in_it_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "order.json").write_text(json.dumps({"dishes": ["pie"], "tabel": 1}))
    with pytest.raises(InputError, match="leave out --table: the file has all of it"):
        order("--request", file, "--table", 1)
    with pytest.raises(InputError, match=r"order\.json: tabel is not a setting; did you mean table\?"):
        order("--request", file)


def test_the_help_has_descriptions_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    order("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Where to bring it [near] (required)." in text and "cash|card" in text
    assert "Share (default: 0.1)." in text and "Soon." in text and "--set SECTION.KEY=VALUE" in text
