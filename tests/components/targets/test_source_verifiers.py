"""Sources with verifiers of their own: what their rows and files say, what is rejected, what the identity covers."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from preparing import rows

from core.errors import InputError
from targets.check.source_drift import measure, read_version
from targets.prepare import prepare
from targets.prepared_files import Prepared, hint_texts, kept_text, require_targets
from targets.select.split import select_train
from targets.settings import build_config

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima", "Kenya": "Nairobi"}
COLOURS = ("red", "green", "blue", "grey")


def run(sources: list[Any], out: Path, tokenizer: Path, **settings: Any) -> Prepared:
    return prepare(build_config({"source": sources, "workers": 1, **settings}), out, tokenizer_json=tokenizer)


def capital(country: str, answer: str | None = None, **more: Any) -> dict[str, Any]:
    gold = CAPITALS[country]
    response = f"<think>\nI know {country} well.\n</think>\n\n<answer>{answer or gold}</answer>"
    return {"problem": f"What is the capital of {country}?", "answer": gold, "response": response, **more}


def choice(k: int, answer: str | None = None, gold: str | None = None) -> dict[str, Any]:
    options = "\n".join(f"{label}. {colour}" for label, colour in zip("ABCD", COLOURS, strict=True))
    right = "ABCD"[k % 4]
    return {
        "problem": f"Which colour has the stone number {k} of the long garden wall?\n{options}",
        "answer": gold or right,
        "response": f"<think>\nStone {k} is {COLOURS[k % 4]}.\n</think>\n\n\\boxed{{{answer or right}}}",
    }


EXACT = {"type": "exact", "answer": "tag:answer"}


def test_rows_say_their_source_their_domain_and_their_verifier(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    sources = [
        str(jsonl(good(1), good(2), name="sums.jsonl")),
        {"path": str(jsonl(choice(1), choice(2), name="a.jsonl")), "name": "colours", "verifier": "choice"},
        {
            "path": str(jsonl(capital("Peru", continent="America"), name="b.jsonl")),
            "verifier": EXACT,
            "domain": "geography",
            "fields": ["continent"],
            "system_prompt": "You know the world.",
            "suffix": "\nAnswer in <answer> tags.",
        },
    ]
    prepared = run(sources, tmp_path / "out", tokenizer, system_prompt="Think first.")
    assert prepared.counts == {"read": 5, "kept": 5}
    split = select_train(prepared, tmp_path / "out")
    table = pq.read_table(split.train)
    found = {row["data_source"]: row for row in table.to_pylist()}
    assert {name: (row["ability"], row["reward_model"]["style"]) for name, row in found.items()} == {
        "sums": ("math", "math"),
        "colours": ("choice", "choice"),
        "b": ("geography", "exact"),
    }
    assert found["b"]["prompt"] == [
        {"role": "system", "content": "You know the world."},
        {"role": "user", "content": "What is the capital of Peru?\nAnswer in <answer> tags."},
    ]
    assert found["sums"]["prompt"][0]["content"] == "Think first."
    assert json.loads(found["b"]["extra_info"]["fields"]) == {"continent": "America"}
    assert found["sums"]["extra_info"]["fields"] is None
    recorded = json.loads(table.schema.metadata[b"verifiers"])
    assert {name: record["verifier"] for name, record in recorded.items()} == {
        "sums": "math",
        "colours": "choice",
        "b": EXACT,
    }
    assert all(row["verified"] and row["gold_parses"] and row["has_answer"] for row in rows(prepared.profile))


def test_the_identity_covers_the_verifier_and_its_fields(tmp_path: Path, tokenizer: Path, jsonl: Any) -> None:
    path = str(jsonl(*(capital(country, continent=country) for country in CAPITALS)))

    def digests(name: str, verifier: Any, **more: Any) -> tuple[str, str]:
        prepared = run([{"path": path, "verifier": verifier, **more}], tmp_path / name, tokenizer)
        assert prepared.counts["kept"] == 4
        return prepared.digest, prepared.config.digest()

    plain = digests("a", EXACT)
    assert digests("b", {**EXACT, "ignore": ["space"]}) == plain  # the default
    other = digests("c", {**EXACT, "ignore": ["case", "space"]})
    assert other[0] != plain[0] and other[1] != plain[1]
    assert digests("d", EXACT, fields=["continent"])[0] != plain[0]


def test_each_verifier_rejects_its_own_wrong_answers_and_golds(tmp_path: Path, tokenizer: Path, jsonl: Any) -> None:
    boxed = capital("Kenya", name="k") | {"response": "<think>\nI know.\n</think>\n\n\\boxed{Nairobi}"}
    sources = [
        {"path": str(jsonl(choice(1), choice(2, "A"), choice(3, gold="F"), name="a.jsonl")), "verifier": "choice"},
        {"path": str(jsonl(capital("Japan"), capital("Peru", "Tokyo"), boxed, name="b.jsonl")), "verifier": EXACT},
    ]
    sources[0]["verifier"] = {"type": "choice", "options": 4}
    prepared = run(sources, tmp_path / "out", tokenizer)
    reasons = {row["id"]: (row["reason"], row["detail"]) for row in rows(prepared.rejected)}
    assert {name: reason for name, (reason, _) in reasons.items()} == {
        "a.jsonl:1": "wrong",
        "a.jsonl:2": "gold_unparsed",
        "b.jsonl:1": "wrong",
        "b.jsonl:2": "no_answer",
    }
    assert "expected A to D" in reasons["a.jsonl:2"][1]
    assert prepared.counts["kept"] == 2 and not prepared.hints
    assert prepared.by_source == {
        "a": {"read": 3, "kept": 1, "wrong": 1, "gold_unparsed": 1},
        "b": {"read": 3, "kept": 1, "wrong": 1, "no_answer": 1},
    }
    assert kept_text(prepared) == "2 of 6 traces are used (a 1 of 3, b 1 of 3)"


@pytest.mark.parametrize("processes", [1, 2])
def test_a_source_that_asks_the_wrong_verifier_is_told_which_one_fits(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, processes: int
) -> None:
    letters = {"path": str(jsonl(*(choice(k) for k in range(20)), name="letters.jsonl"))}
    prepared = run([letters], tmp_path / "out", tokenizer, workers=processes)
    hint = "source letters: the gold answers of 100% of the rows are letters: verifier: choice"
    assert hint_texts(prepared) == [hint]
    with pytest.raises(InputError, match=f"20 choice_gold .*S{hint[1:]}"):
        require_targets(prepared)
    sums = {"path": str(jsonl(*(good(k) for k in range(1, 9)), name="sums.jsonl")), "verifier": "choice"}
    prepared = run([letters | {"verifier": "choice"}, sums], tmp_path / "other", tokenizer)
    assert prepared.sources["letters.jsonl"]["kept"] == 20 and not prepared.hints


def test_words_without_a_box_and_questions_of_one_template_are_told_what_helps(
    tmp_path: Path, tokenizer: Path, jsonl: Any
) -> None:
    def square(name: str) -> dict[str, str]:
        colour = "dark" if (ord(name[0]) + int(name[1])) % 2 == 0 else "light"
        response = f"<think>\n{name} it is\n</think>\n\n{colour}"
        return {"question": f"What colour has {name} on a chess board?", "answer": colour, "response": response}

    path = str(jsonl(*(square(f"{column}{row}") for column in "abcdefgh" for row in range(1, 9)), name="chess.jsonl"))
    unboxed = run([path], tmp_path / "a", tokenizer)
    assert hint_texts(unboxed) == ["source chess: the gold answers of 100% of the rows are words: verifier: exact"]
    source = {"path": path, "verifier": {"type": "exact", "answer": "after_thoughts"}}
    alike = run([source], tmp_path / "b", tokenizer)
    assert alike.by_source["chess"]["near_duplicate"] == 48
    assert hint_texts(alike)[0].startswith("source chess: near_duplicate took 75% of its traces: if questions")
    every = run([source], tmp_path / "c", tokenizer, near_duplicate=100)
    assert every.counts["kept"] == 64 and not every.hints


def test_names_of_sources_are_unique(jsonl: Any, good: Any) -> None:
    paths = [str(jsonl(good(k), name=f"{folder}/traces.jsonl")) for k, folder in enumerate("abc", start=1)]
    sources = [*paths[:2], {"path": paths[2], "name": "traces-2"}]
    assert [source.name for source in build_config({"source": sources}).sources] == ["traces", "traces-3", "traces-2"]
    with pytest.raises(InputError, match="two sources have the name 'x'"):
        build_config({"source": [{"path": path, "name": "x"} for path in paths]})


@pytest.mark.parametrize("cached", [True, False])
def test_what_a_verifier_could_not_decide_is_asked_again(
    tmp_path: Path, tokenizer: Path, jsonl: Any, cached: bool
) -> None:
    away = tmp_path / "away"
    (tmp_path / "service.py").write_text(
        "from pathlib import Path\n\n"
        "def ask(data_source, solution_str, ground_truth, extra_info):\n"
        f"    if Path({str(away)!r}).exists() and ground_truth == 'Lima':\n"
        "        raise ConnectionError('the service is away')\n"
        "    return solution_str == ground_truth\n"
    )
    verifier = {"type": "python", "path": f"{tmp_path}/service.py:ask", "answer": "tag:answer"}
    config = build_config({"source": [{"path": str(jsonl(capital("Peru"), capital("Kenya"))), "verifier": verifier}]})
    cache = tmp_path / "cache" if cached else None
    prepared = []
    for is_away in (True, False, False):
        away.touch() if is_away else away.unlink(missing_ok=True)
        prepared.append(prepare(config, tmp_path / "out", tokenizer_json=tokenizer, cache=cache))
    assert [one.counts for one in prepared] == [
        {"read": 2, "kept": 1, "verify_error": 1},
        {"read": 2, "kept": 2},
        {"read": 2, "kept": 2},
    ]
    assert [one.reused for one in prepared] == [False, False, True]


def test_rows_that_a_verifier_loses_are_told(tmp_path: Path, tokenizer: Path, jsonl: Any) -> None:
    (tmp_path / "fails.py").write_text(
        "def ask(data_source, solution_str, ground_truth, extra_info):\n    return {'Lima': 1.0}[ground_truth]\n"
    )
    verifier = {"type": "python", "path": f"{tmp_path}/fails.py:ask", "answer": "tag:answer"}
    config = build_config({"source": [{"path": str(jsonl(capital("Peru"), capital("Kenya"))), "verifier": verifier}]})
    prepared = prepare(config, tmp_path / "out", tokenizer_json=tokenizer)
    assert kept_text(prepared).startswith("1 of 2 traces are used, 1 lost because the verifier failed. The first, ")
    assert "KeyError: 'Nairobi'" in kept_text(prepared)
    version = read_version(prepared.profile)
    assert measure(version, version)["most_verifier_errors"].value == 0.5
