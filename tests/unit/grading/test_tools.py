"""Tools are pure, say what a call did wrong, and a hostile call costs one observation."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.files import digest_file
from core.model.calls import Call, write_calls
from grading.tools.replay import call_problem, differs, problem_of
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context, Exchange, open_tool
from grading.tools.toolbox import Toolbox

MINE = '''
import os, time
from grading.tools.tool import Tool, ToolError, function_schema

class Stock(Tool):
    """How many pieces of an article are left."""
    def schema(self):
        return function_schema(self, article="its name")
    def run(self, call, history, context):
        if call.arguments["article"] not in context.row:
            raise ToolError("no such article")
        return str(context.row[call.arguments["article"]] - sum(one.call == call for one in history))

def die(how: str) -> str:
    """Ends its process, or never does."""
    while how == "late":
        time.sleep(1)
    os._exit(1)
'''
ROW = {"nails": 7, "DB": "shop"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    (folder / "mine.py").write_text(MINE)
    (folder / "texts").mkdir()
    (folder / "texts/a.md").write_text("Iron melts at 1538 degrees.\n\nWood burns.\n\nIron rusts, iron rusts slowly.")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as database:
        database.executescript("create table stock (article, pieces); insert into stock values ('nails', 7.0)")
    return folder


@pytest.fixture(scope="module")
def toolbox(folder: Path) -> Iterator[Toolbox]:
    use: list[dict[str, Any]] = [
        {"type": "calculator"},
        {"type": "python", "name": "code"},
        {"type": "sql", "database": f"{folder}/{{DB}}.sqlite"},
        {"type": "search", "folder": str(folder / "texts"), "results": 1},
        {"type": f"{folder}/mine.py:Stock"},
        {"type": f"{folder}/mine.py:die"},
    ]
    with Toolbox(ToolSettings(use=use, seconds=1.0, observation_chars=200), workers=1) as toolbox:
        yield toolbox


CONTEXT = Context(ROW, 5)
ARGUMENTS = {
    "calculator": "expression",
    "code": "code",
    "sql": "query",
    "search": "query",
    "stock": "article",
    "die": "how",
}
HOSTILE = [
    ("code", "import os\nwhile True: os.fork()", "error: "),
    ("code", "open('/tmp/x', 'w').write('x' * 10**9)", "error: "),
    ("code", "import urllib.request as u; u.urlopen('http://127.0.0.1:22')", "error: "),
    ("code", "print('x' * 10**9)", "error: "),
    ("code", "while True: pass", "error: no "),
    ("code", "import os; os.kill(os.getppid(), 9)", "error: "),
    ("sql", "attach database '/tmp/x.db' as x", "error: not authorized"),
    ("sql", "pragma query_only = 0", "error: not authorized"),
    ("sql", "insert into stock values (1, 2)", "error: not authorized"),
    (
        "sql",
        "with recursive n(x) as (select 1 union all select x+1 from n) select count(*) from n",
        "error: no result within",
    ),
    ("calculator", "9**9**9**9", "error: the result is too large"),
    ("calculator", "__import__('os')", "error: not an arithmetic expression"),
    ("die", "late", "error: no result within 1 s"),
    ("die", "now", "error: "),
]


def ask(toolbox: Toolbox, name: str, text: str, history: list[Exchange] | None = None) -> str:
    ((_, observation),) = toolbox.run([Call(name, {ARGUMENTS[name]: text})], history or [], CONTEXT)
    return observation


@pytest.mark.parametrize(("name", "text", "observation"), HOSTILE)
def test_a_hostile_call_costs_one_observation(
    toolbox: Toolbox, folder: Path, name: str, text: str, observation: str
) -> None:
    before = digest_file(folder / "shop.sqlite")
    assert ask(toolbox, name, text).startswith(observation) or observation in ask(toolbox, name, text)
    assert ask(toolbox, "calculator", "2*(3+4)-1") == "13"
    assert digest_file(folder / "shop.sqlite") == before


@pytest.mark.parametrize(
    ("name", "text", "observation"),
    [
        ("calculator", "47*86", "4042"),
        ("calculator", "7/2", "3.5"),
        ("calculator", "1/0", "error: division by zero"),
        ("code", "x = 3\nprint('a')\nx + 1", "a\n4"),
        ("code", "x + 1", "error: NameError: name 'x' is not defined"),
        ("sql", "select article, pieces from stock", "article | pieces\nnails | 7"),
        ("sql", "select gold", "error: no such column: gold"),
        ("search", "iron rusts", "Iron rusts, iron rusts slowly."),
        ("search", "gold", "nothing found"),
        ("stock", "nails", "7"),
        ("stock", "gold", "error: no such article"),
    ],
)
def test_what_a_tool_says(toolbox: Toolbox, name: str, text: str, observation: str) -> None:
    assert ask(toolbox, name, text) == observation


CELLS = ["import random; x = random.random(); print(1)", "1/0", "x += 1; print('more')", "print(x)"]


@pytest.mark.parametrize(("name", "texts"), [("code", CELLS), ("stock", ["nails"] * 3)])
def test_a_call_depends_on_its_history_alone(toolbox: Toolbox, name: str, texts: list[str]) -> None:
    history: list[Exchange] = []
    for text in texts:
        history += toolbox.run([Call(name, {ARGUMENTS[name]: text})], history, CONTEXT)
    again = toolbox.run([history[-1].call], history[:-1], CONTEXT)
    assert again == history[-1:] and history[-1].observation != history[0].observation
    assert [ask(toolbox, name, text, history[:number]) for number, text in enumerate(texts)] == [
        one[1] for one in history
    ]


def test_mistakes_and_limits_are_observations(toolbox: Toolbox) -> None:
    calls = [Call("", {}, "the call is not JSON"), Call("gold", {}), *[Call("calculator", {"expression": "1"})] * 3]
    texts = [observation for _, observation in toolbox.run(calls, [], CONTEXT)]
    assert texts[0] == "error: the call is not JSON" and texts[1].startswith(
        "error: no tool 'gold'; there are calculator"
    )
    assert texts[2:] == ["1", "1", "error: not made: a turn has at most 4 calls"]
    assert len(ask(toolbox, "code", "print('x' * 5000)")) < 300


def episode(*parts: str | tuple[str, str]) -> list[dict[str, str]]:
    """Return messages: a text is a turn, a pair an expression and its recorded value."""
    target: list[dict[str, str]] = []
    for part in parts:
        if isinstance(part, str):
            target.append({"role": "assistant", "content": part})
        else:
            text = write_calls([Call("calculator", {"expression": part[0]})], "hermes")
            target += [{"role": "assistant", "content": text}, {"role": "tool", "content": part[1]}]
    return target


UNKNOWN, BAD = ('<tool_call>{"name": "gold", "arguments": {}}</tool_call>', "<tool_call>4</tool_call>")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (episode(("1/3", "0.3333333333333333"), "done"), None),
        (episode(("1/3", " 0.33333333\n"), "done"), None),  # as numbers
        (episode(("1+1", "3"), "done"), "observation_differs"),
        (episode(("1+1", "2 or so"), "done"), "observation_differs"),
        (episode(("1+1", "2")), "no_final_answer"),
        (episode(*[("1+1", "2")] * 8, "done"), "no_final_answer"),
        (episode(BAD, "done"), "bad_call"),
        (episode(UNKNOWN, "done"), "unknown_tool"),
        (episode(("1+1", "2"), "done")[::2], "unanswered_call"),
    ],
)
def test_a_recorded_episode_is_replayed(toolbox: Toolbox, target: list[dict[str, str]], reason: str | None) -> None:
    settings = toolbox.settings.model_copy(update={"compare": "numbers"})
    schemas = settings.schemas()
    problem = problem_of(target, "hermes", schemas, settings)
    toolbox.settings = settings
    problem = problem or differs(target, "hermes", schemas, toolbox, CONTEXT)
    assert (problem and problem.reason) == reason


@pytest.mark.parametrize("arguments", [{}, {"x": 1}, {"x": 1, "expression": "1+1"}, {"expression": "1+1", "x": 1}])
def test_a_call_that_tags_cannot_write_is_named(toolbox: Toolbox, arguments: dict[str, Any]) -> None:
    target = episode(write_calls([Call("calculator", arguments)], "hermes"), "done")
    schemas = toolbox.settings.schemas()
    assert call_problem(target, "hermes", schemas, "hermes") is None
    problem = call_problem(target, "hermes", schemas, "tags")
    assert problem and problem.reason == "bad_call"
    assert "tags writes the argument expression, and the call has" in problem.detail


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ([{"type": "gold"}], "expected one of calculator, python, sql, search, or FILE.py:NAME"),
        ([{"type": "calculator", "color": 1}], "color"),
        ([{"type": "calculator"}, {"type": "calculator"}], "two tools have the name 'calculator'"),
        ([{"type": "search", "folder": "nowhere"}], "no text in it"),
    ],
)
def test_settings_that_do_not_fit_say_so(use: list[dict[str, Any]], words: str) -> None:
    with pytest.raises((InputError, ValueError), match=words), Toolbox(ToolSettings(use=use), workers=1) as toolbox:
        toolbox.start()


def test_the_tool_of_the_documentation_counts_what_was_taken(tmp_path: Path) -> None:
    (tmp_path / "stock.csv").write_text("nails,7\n")
    example = Path(__file__).resolve().parents[3] / "examples/tools/stock.py"
    tool, call = (
        open_tool({"type": f"{example}:Stock", "file": f"{tmp_path}/stock.csv"}),
        Call("stock", {"article": "nails"}),
    )
    first = Exchange(call, tool.run(call, [], CONTEXT))
    assert (first.observation, tool.run(call, [first], CONTEXT)) == ("7", "6")


def test_the_digest_is_of_contents(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.py"
    copy.write_text(MINE)
    first, second = (ToolSettings(use=[{"type": f"{file}:Stock"}]) for file in (folder / "mine.py", copy))
    assert first.digest() == second.digest()
    copy.write_text(MINE + "\n")
    assert first.digest() != second.digest()
