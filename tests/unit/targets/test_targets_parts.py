"""Duplicates, token lengths and the held-out split: the rules that hold for any input."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.errors import InputError
from training.targets import filters
from training.targets.config import build_config
from training.targets.dedupe import Candidate, choose, near_duplicates, problem_digest
from training.targets.filters import REASONS, compression_ratio
from training.targets.prepare import Prepared, prepare
from training.targets.split import select_train
from training.targets.tokens import load_lengths
from training.targets.verify import FAULTS

CANDIDATES = st.lists(
    st.tuples(st.sampled_from("pqrs"), st.sampled_from("xyz"), st.integers(1, 9)), min_size=1, max_size=30
).map(lambda found: [Candidate(f"id{k}", p, t, size) for k, (p, t, size) in enumerate(found)])


@given(CANDIDATES, st.integers(1, 4), st.sampled_from(["first", "shortest"]), st.booleans())
def test_survivors(candidates: list[Candidate], k: int, keep: Any, merged: bool) -> None:
    same_as = {"q": ("p", 97.0)} if merged else {}
    faults = choose(candidates, same_as, per_problem=k, keep=keep)
    groups: dict[str, list[Candidate]] = {}
    for position, candidate in enumerate(candidates):
        name = "p" if merged and candidate.problem_digest == "q" else candidate.problem_digest
        groups.setdefault(name, [])
        if position not in faults:
            groups[name].append(candidate)
    for kept in groups.values():
        assert 1 <= len(kept) <= k
        assert len({candidate.target_digest for candidate in kept}) == len(kept)
    assert {fault.reason for fault in faults.values()} <= {"surplus", "near_duplicate"}


def test_a_changed_number_makes_another_problem() -> None:
    text = (
        "A very long story about a farmer and his sheep who walk to the market in the rain and count {} of them twice"
    )
    problems = [
        (text.format(15), "30"),
        (text.format(16), "30"),
        (text.format(15) + ".", "30"),
        (text.format(15), "31"),
    ]
    assert near_duplicates(problems, 95.0).keys() == {2}
    assert near_duplicates(problems[:2], 95.0) == {}
    assert near_duplicates([("Find $x+1$.", "2"), ("Find $x-1$.", "2")], 80.0) == {}


def test_problems_agree_whatever_their_typography() -> None:
    assert problem_digest("Find  $x$ if\n$x+1=3$.") == problem_digest("find \\(x\\) if \\( x + 1 = 3 \\).")
    assert problem_digest("Find $x$.") != problem_digest("Find $y$.")


def test_loops_compress_and_mathematics_does_not() -> None:
    assert compression_ratio("we add one more\n" * 200) < 0.12 < compression_ratio("".join(map(str, range(900))))
    assert compression_ratio("") == 1.0


TEXTS = st.lists(st.text(max_size=40), max_size=8)


@given(texts=TEXTS, limit=st.integers(1, 60))
def test_the_shortcut_by_bytes_changes_nothing(tokenizer: Path, texts: list[str], limit: int) -> None:
    lengths = load_lengths(tokenizer)
    assert lengths.byte_level
    counts = lengths.count(texts)
    assert lengths.over(texts, limit) == {k: count for k, count in enumerate(counts) if count > limit}


def test_tokenizer_files_that_do_not_work_are_named(tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_lengths(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer"):
        load_lengths(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())
    assert load_lengths(tmp_path).template is None
    for template in ("{{ raise_exception('no users') }}", "{% for m in %}"):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        with pytest.raises(InputError, match="chat template"):
            load_lengths(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("Q: {{ messages[0].content }}")
    assert load_lengths(tmp_path).prompt_text([{"role": "user", "content": "x"}]) == "Q: x"


def prepared_embedded(out: Path, tokenizer: Path, rows: int) -> Prepared:
    config = build_config({"embedded_rows": rows})
    return prepare(config, out, tokenizer_json=tokenizer, workers=1)


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
    for settings in ({"heldout_share": 1.0}, {"max_rows": 0}):
        with pytest.raises(InputError):
            select_train(prepared, tmp_path, **settings)


def test_every_reason_that_the_code_gives_is_in_the_funnel() -> None:
    code = "".join(path.read_text() for path in Path(filters.__file__).parent.glob("*.py"))
    given = set(re.findall(r"(?:Fault|_Refused)\(\s*\"(\w+)\"", code)) | set(FAULTS.values())
    assert len(given) > 20
    assert given <= set(REASONS)
