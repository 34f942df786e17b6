"""Duplicates, token lengths and the held-out split: the rules that hold for any input."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from targets.filter.decisions import in_order
from targets.filter.filters import DOUBLE_ESCAPED, FILTERS
from targets.filter.stages import VERDICTS
from targets.filter.text_properties import measure
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.select.dedupe import describe, problem_digest
from targets.select.split import select_train
from targets.settings import build_config
from targets.trace import Rejection, Trace
from tests.deduping import find_duplicates

ROOT = Path(__file__).resolve().parents[3]
ANSWERS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=30
)  # (problem, text, size) of each accepted trace
STORY = "A very long story about a farmer and his sheep who walk to the market in the rain and count {} of them twice"


def accepted(k: int, problem: str, target: str, size: int = 1, gold: str = "30") -> Trace:
    trace = Trace(f"id{k}", "source", k, problem=problem, gold=gold, target=target)
    describe(trace, likeness=True)
    trace.target_bytes = size
    return trace


def rejected(traces: list[Trace], **settings: Any) -> dict[int, Rejection]:
    return find_duplicates(traces, build_config(settings))


@settings(deadline=None, max_examples=60)
@given(ANSWERS, st.integers(1, 4), st.sampled_from(["first", "shortest", "diverse"]), st.booleans())
def test_survivors(traces: list[tuple[int, int, int]], k: int, keep: Any, merged: bool) -> None:
    problems = [STORY.format(15), STORY.format(15) + "." if merged else STORY.format(17), STORY.format(20), "short"]
    rows = [accepted(n, problems[p], "words of " + "xyz"[t] * 9, size) for n, (p, t, size) in enumerate(traces)]
    rejections = rejected(rows, traces_per_problem=k, keep=keep)
    groups: dict[int, list[tuple[int, int, int]]] = {}
    for position, trace in enumerate(traces):
        group = groups.setdefault(0 if merged and trace[0] == 1 else trace[0], [])
        if position not in rejections:
            group.append(trace)
    for name, kept in groups.items():
        distinct = {text for problem, text, _ in traces if problem == name or (merged and (name, problem) == (0, 1))}
        assert len(kept) == min(k, len(distinct))
        assert len({text for _, text, _ in kept}) == len(kept)
        if keep == "shortest":
            assert min(size for p, _, size in traces if p == name or (merged and (name, p) == (0, 1))) in {
                size for _, _, size in kept
            }
    assert {rejection.reason for rejection in rejections.values()} <= {"too_many_per_problem", "near_duplicate"}
    assert all(rejection.detail for rejection in rejections.values())


def test_the_least_alike_traces_survive() -> None:
    words = [f"first we write step {k} and then the next one" for k in range(30)]
    texts = [
        " ".join(words),
        " ".join(words[:28]),
        " ".join(words[:15]) + " other" * 90,
        "quite another way: " + "x y z w " * 9,
    ]
    rows = [accepted(k, "p", text) for k, text in enumerate(texts)]
    assert rejected(rows, keep="diverse", traces_per_problem=2).keys() == {1, 2}
    assert rejected(rows, keep="first", traces_per_problem=2).keys() == {2, 3}
    assert rejected(rows, keep="diverse", traces_per_problem=3).keys() == {1}


def test_a_changed_number_makes_another_problem() -> None:
    rows = [
        accepted(0, STORY.format(15), "a"),
        accepted(1, STORY.format(16), "b"),
        accepted(2, STORY.format(15) + ".", "c"),
        accepted(3, STORY.format(15), "d", gold="31"),
    ]
    rejections = rejected(rows)
    assert rejections.keys() == {2, 3}  # the last has the same text: whatever its gold, it is the same problem
    assert re.fullmatch(r"99\.\d% similar to the problem of id0", rejections[2].detail)
    assert rejected([accepted(0, "Find $x+1$.", "a", gold="2"), accepted(1, "Find $x-1$.", "b", gold="2")]) == {}


def test_problems_agree_whatever_their_typography() -> None:
    assert problem_digest("Find  $x$ if\n$x+1=3$.") == problem_digest("find \\(x\\) if \\( x + 1 = 3 \\).")
    assert problem_digest("Find $x$.") != problem_digest("Find $y$.")


def prepared_embedded(out: Path, tokenizer: Path, rows: int) -> Prepared:
    config = build_config({"embedded_rows": rows, "workers": 1})
    return prepare(config, out, tokenizer_json=tokenizer)


def ids(path: Path) -> list[str]:
    return [row["id"] for row in pq.read_table(path)["extra_info"].to_pylist()]


def test_held_out_problems_stay_held_out_when_rows_are_added(tmp_path: Path, tokenizer: Path) -> None:
    small = select_train(prepared_embedded(tmp_path / "a", tokenizer, 200), tmp_path / "a", heldout_share=0.2)
    large = select_train(prepared_embedded(tmp_path / "b", tokenizer, 300), tmp_path / "b", heldout_share=0.2)
    assert small.rows + small.heldout_rows == 200
    assert 20 < small.heldout_rows < 60
    assert set(ids(small.heldout)) <= set(ids(large.heldout))
    assert set(ids(small.train)) <= set(ids(large.train))
    assert not set(ids(large.train)) & set(ids(large.heldout))
    info = pq.read_table(large.train)["extra_info"].to_pylist()
    assert [entry["index"] for entry in info] == list(range(large.rows))
    assert {entry["split"] for entry in info} == {"train"}
    assert large.digest != small.digest


def test_a_sample_is_stable_and_in_order(tmp_path: Path, tokenizer: Path) -> None:
    prepared = prepared_embedded(tmp_path, tokenizer, 200)
    everything = ids(prepared.prepared)
    few, more = (ids(select_train(prepared, tmp_path, max_rows=n).train) for n in (20, 50))
    assert len(few) == 20 and set(few) <= set(more)
    assert few == [identity for identity in everything if identity in set(few)]
    assert (
        select_train(prepared, tmp_path, max_rows=20, seed=1).digest
        != select_train(prepared, tmp_path, max_rows=20).digest
    )
    for wrong in ({"heldout_share": 1.0}, {"max_rows": 0}):
        with pytest.raises(InputError):
            select_train(prepared, tmp_path, **wrong)


def test_every_reason_that_the_code_gives_is_in_the_registry() -> None:
    files = [*(ROOT / "targets").rglob("*.py"), *(ROOT / "grading/tools").rglob("*.py")]
    code = "".join(path.read_text() for path in files)
    given = set(re.findall(r"(?:Rejection|Unusable|Problem)\(\s*\"(\w+)\"", code)) | set(VERDICTS.values())
    given |= {
        "no_problem",
        "no_gold",
        "no_response",
        "no_reasoning",
        "near_duplicate",
        "too_many_per_problem",
    }
    assert given == {entry.name for entry in FILTERS if entry.rule is None} | {"no_box", "chat_tokens"}
    assert len({entry.name for entry in FILTERS}) == len(FILTERS)


def test_the_documentation_lists_the_filters_as_they_are_registered() -> None:
    page = (ROOT / "docs/filters.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.M) == [(entry.name, entry.title) for entry in FILTERS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so \\boxed{4}", True),
        (r"\\frac12 + \\sqrt3", True),
        (r"\\\\frac{1}{2}", True),
        (r"Find \\(x + 1\\).", True),
        (r"\\begin{cases}", True),
        (r"so \boxed{4}", False),
        (r"\begin{cases} a & \text{if } b \\ c \\\text{else} \end{cases}", False),
        (r"1 & 2 \\3 & 4 \\[4pt] a\\b", False),
        (r"a=1\\ \frac{1}{2}\\\frac{1}{2}", False),
        (r"first\\text follows\\left alone", False),
    ],
)
def test_commands_whose_backslashes_were_escaped_twice_are_found(text: str, expected: bool) -> None:
    assert bool(DOUBLE_ESCAPED.search(text)) is expected


@pytest.mark.parametrize(
    ("target", "once", "reaches"),
    [
        ("<think>\n2 + 2 is 4\n</think>\n\n4", True, True),
        ("<think>\na\n</think>\n<think>\nb\n</think>\n\n4", False, False),
        ("<think>\nhm\n</think>\n\n4", True, False),
    ],
)
def test_the_profile_of_a_target_takes_its_text_apart_again(target: str, once: bool, reaches: bool) -> None:
    trace = Trace("id", "source", 0, problem="What is it?", gold="4", target=target)
    measure(trace, boxed=False)
    assert (trace.has_think, trace.reaches_answer) == (once, reaches)


@pytest.mark.parametrize(
    ("rows", "complete"),
    [
        ([(0, 2), (0, 2), (1, 1)], True),
        ([(0, 2), (1, 1)], False),  # a generation of row 0 is missing
        ([(0, 1)], False),
        ([(1, 1)], False),
        ([(0, 1), (0, 1), (1, 1)], False),
    ],
)
def test_a_trace_that_is_lost_or_read_twice_is_an_error(rows: list[tuple[int, int]], complete: bool) -> None:
    piece: Any = SimpleNamespace(start=0, stop=2, most=None, name="a.jsonl")
    traces = [Trace(f"id{row}", "source", row, of=of) for row, of in rows]
    if complete:
        assert list(in_order([traces[:1], traces[1:]], piece)) == traces
    else:
        with pytest.raises(RuntimeError, match=r"conservation violated: a\.jsonl"):
            list(in_order([traces], piece))
