"""Options of a command from the fields of a request: the same values from a file and from a command line."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from pydantic import Field

import evaluation.command_requests
import targets.command_requests
import training.job.request
from core.cli import new_app, run_app
from core.command_options import options_of, request_of
from core.errors import InputError
from core.request_model import Request


class Order(Request):
    dishes: tuple[str, ...] = Field(description="What to cook.", json_schema_extra={"cli": "--dish", "metavar": "DISH"})
    table: int = Field(ge=1, le=9, description="Where to bring it [near].")
    tip: float = Field(default=0.1, ge=0, lt=1, description="Share.", json_schema_extra={"panel": "Money"})
    pay: Literal["cash", "card"] = Field(default="cash", description="How.")
    hurry: bool = Field(default=False, description="Soon.")
    stars: int = Field(default=0, description="Between [0, 5].")
    spice: float = Field(default=0.0, description="Part of a dish[/item].")


@pytest.fixture
def order():
    app, taken = new_app("Orders."), []

    @app.command()
    @options_of(Order)
    def take(context: typer.Context, **given: Any) -> None:
        """Take an order."""
        taken.append(request_of(Order, context, given))

    def run(*arguments: object) -> Order:
        assert run_app(app, [str(argument) for argument in arguments], "waiter") == 0
        return taken[-1] if taken else None

    return run


def test_a_file_and_a_command_line_ask_for_the_same(order, tmp_path: Path) -> None:
    given = order("--dish", "soup", "--dish", "pie", "--table", 3, "--pay", "card", "--hurry")
    assert given == Order(dishes=("soup", "pie"), table=3, pay="card", hurry=True)
    assert order("--request", given.write(tmp_path / "order.json")) == given


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dish", "pie"], "missing --table; see waiter --help"),
        ([], "missing --dish, --table; see waiter --help"),
        (
            ["--dish", "pie", "--table", "x"],
            "--table: got 'x', expected a whole number from 1 up to 9; see",
        ),
        (["--dish", "pie", "--table", "10"], "--table: got '10', expected a whole number from 1 up to 9"),
        (["--dish", "pie", "--table", "1", "--tip", "nan"], "--tip: got 'nan', expected a number from 0 below 1"),
        (["--dish", "pie", "--table", "1", "--pay", "iou"], "--pay: got 'iou', expected one of cash, card"),
        (["--nothing"], "No such option: --nothing; see waiter --help"),
    ],
)
def test_a_mistake_names_the_option(order, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        order(*arguments)
    assert str(caught.value).startswith(message)


def test_an_option_beside_a_file_is_refused_and_a_wrong_key_in_it_is_named(order, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps({"dishes": ["pie"], "tabel": 1}))
    with pytest.raises(InputError, match="leave out --table: the file has all of it"):
        order("--request", file, "--table", 1)
    with pytest.raises(InputError, match=r"order\.json: tabel is not a setting; did you mean table\?"):
        order("--request", file)
    file.write_text(json.dumps({"dish": ["pie"], "table": 1}))
    with pytest.raises(InputError, match=r"order\.json: dish is not a setting; did you mean dishes\?"):
        order("--request", file)


def test_the_help_has_descriptions_defaults_and_groups(order, capsys) -> None:
    order("--help")
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Where to bring it [near] (required)." in text
    assert "Share (default: 0.1)." in text and "Money" in text and "cash|card" in text
    assert "Between [0, 5] (default: 0)." in text and "Part of a dish[/item] (default: 0.0)." in text
    assert "Soon." in text  # whose default is not to


def test_a_page_names_every_key_of_a_request_that_is_not_its_option() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.partition("\n## Request files\n")[2].partition("\n## ")[0]
    requests = [evaluation.command_requests, targets.command_requests, training.job.request]
    models = [value for module in requests for value in vars(module).values() if isinstance(value, type)]
    for model in (model for model in models if issubclass(model, Request)):
        for name, field in model.model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and "cli" in extra:
                assert f"`{name}`" in section, (model, name)
                assert f"`{extra['cli']}" in section, (model, name)


def test_a_request_in_a_file_has_the_mappings_that_options_have_as_text(tmp_path: Path) -> None:
    paths = {"teacher": "t", "problems": "p.jsonl", "out": "o.parquet"}
    (tmp_path / "r.json").write_text(json.dumps({**paths, "verifier": {"type": "choice", "options": 4}}))
    given = evaluation.command_requests.TracesRequest.read(tmp_path / "r.json")
    text = evaluation.command_requests.TracesRequest(**paths, verifier="{type: choice, options: 4}")
    assert given == text and given.spec() == text.spec()
    assert evaluation.command_requests.TracesRequest.read(given.write(tmp_path / "again.json")) == given
    (tmp_path / "r.json").write_text(json.dumps({"out": "o", "tokenizer": "t", "source": ["a", {"path": "b"}]}))
    assert targets.command_requests.PrepareRequest.read(tmp_path / "r.json").source == ("a", {"path": "b"})
