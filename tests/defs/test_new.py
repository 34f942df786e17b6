"""`luffy new`: a file of a stranger's field becomes a profile of its own, or one message and no file."""

import csv
import json
from pathlib import Path

import pytest

from core.errors import InputError
from core.model.base_model import SHIPPED
from evaluation.benchmarks.benchmark_problems import read_suite
from grading.verifiers.spec import parse_spec
from pipelines.cli.luffy import main
from pipelines.settings import load
from targets.prepare import prepare
from targets.prepared_files import kept_text

COLUMNS = "{problem: prompt, answer: total, response: work}"
CASES = [(boxes, bolts) for boxes in range(3, 9) for bolts in range(11, 31)]


@pytest.fixture
def crates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of questions that follow one template, one of them answered wrong, one without an answer."""
    monkeypatch.chdir(tmp_path)
    with open("crates.csv", "w", newline="") as file:
        table = csv.DictWriter(file, ("prompt", "total", "work"))
        table.writeheader()
        for number, (boxes, bolts) in enumerate(CASES):
            total = boxes * bolts
            table.writerow(
                {
                    "prompt": f"A crate holds {boxes} boxes of {bolts} bolts each. How many bolts does it hold in all?",
                    "total": "" if number == 5 else total,
                    "work": f"{boxes}*{bolts}={total}\nThe crate holds \\boxed{{{total + (number == 9)}}}",
                }
            )
    return tmp_path


@pytest.mark.parametrize(("verifier", "kind"), [(None, "math"), ("exact", "exact"), ("python", "python")])
def test_it_writes_the_profile_of_the_folder(crates, capsys, verifier, kind):
    assert main(["new", "crates.csv", "--mapping", COLUMNS, *(["--verifier", verifier] if verifier else [])]) == 0
    said = capsys.readouterr().out
    assert f"118 of 120 traces pass the verifier {kind} and the filters" in said
    assert "1: no gold answer" in said and "1: the answer is not the gold answer" in said
    settings = load()
    (source,), (benchmark,) = settings.targets.sources, settings.suite.entries()
    assert source.spec == benchmark.spec and parse_spec(benchmark.verifier, "").type == kind
    assert Path(settings.storage.root) == crates / "outputs"
    suite = read_suite([benchmark], settings.benchmarks.folders)
    prepared = prepare(settings.targets, crates / "prepared", benchmarks=suite, tokenizer_json=SHIPPED)
    assert suite.num_rows == prepared.counts["held_for_benchmark"] == 19
    assert kept_text(prepared) == "99 of 120 traces are used, 19 held for the benchmark"


def test_traces_that_call_a_tool_give_a_profile_with_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("double.py").write_text(
        'def double(text: str) -> str:\n    """The double."""\n    return str(2 * int(text))\n'
    )
    rows = []
    for number in range(40):
        call = {"function": {"name": "double", "arguments": json.dumps({"text": str(number)})}}
        said = {"role": "tool", "content": str(2 * number)}
        turns = [{"role": "assistant", "tool_calls": [call]}, said]
        last = {"role": "assistant", "content": f"\\boxed{{{2 * number}}}"}
        question = {"role": "user", "content": f"Twice {number}?"}
        rows.append({"answer": 2 * number, "messages": [question, *turns, last]})
    Path("calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="0 questions can be used"):
        main(["new", "calls.jsonl"])
    assert "it calls double: name it in tools.use" in capsys.readouterr().out
    assert main(["new", "calls.jsonl", "--tools", "[{type: double.py:double}]"]) == 0
    tools = load().tools
    assert "40 of 40 traces pass the verifier math" in capsys.readouterr().out
    assert tools and tools.format == "tags" and tools.use == [{"type": f"{tmp_path}/double.py:double"}]


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["none.csv"], "none.csv: no such file"),
        (["crates.csv"], "the columns fit no ready mapping: it has prompt, total, work"),
        (["crates.csv", "--mapping", COLUMNS, "--verifier", "exakt"], "no verifier 'exakt'; did you mean exact?"),
        (["crates.csv", "--mapping", COLUMNS, "--verifier", "choice"], "0 questions can be used; expected 30 or more"),
    ],
)
def test_what_it_cannot_use_leaves_nothing_behind(crates, arguments, phrase):
    with pytest.raises(InputError) as raised:
        main(["new", *arguments])
    assert phrase in str(raised.value)
    assert [file.name for file in crates.iterdir()] == ["crates.csv"]


def test_it_overwrites_nothing(crates):
    Path("heldout.jsonl").write_text(json.dumps({"mine": 1}))
    with pytest.raises(InputError, match=r"heldout\.jsonl: already here"):
        main(["new", "crates.csv", "--mapping", COLUMNS])
    assert not Path("luffy.yaml").exists()
