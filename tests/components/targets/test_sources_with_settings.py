"""Sources with settings of their own: mappings, metadata that passes through, caps whose draw is always the same."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from preparing import rows

from core.errors import InputError
from core.schemas import TARGET
from targets.check.expectations import load_checks, validate
from targets.prepare import prepare
from targets.prepared_files import Prepared, read_prepared
from targets.read.sources import find_shards
from targets.select.selection import quotas
from targets.select.split import reconcile, select_train
from targets.settings import build_config
from targets.source_settings import Source


def run(sources: list[Any], out: Path, tokenizer: Path, **settings: Any) -> Prepared:
    return prepare(build_config({"source": sources, "workers": 1, **settings}), out, tokenizer_json=tokenizer)


def kept(prepared: Prepared) -> dict[str, int]:
    return {name: counts["kept"] for name, counts in prepared.sources.items()}


def test_each_source_has_its_own_mapping_and_metadata(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    first = jsonl(*(good(k, level=k % 2, origin={"site": "aops"}) for k in range(1, 5)), name="first.jsonl")
    other = [{"q": row["problem"], "a": row["answer"], "r": row["response"]} for row in map(good, range(5, 8))]
    second = jsonl(*other, name="second.jsonl")
    sources = [
        {"path": str(first), "license": "MIT", "metadata": {"difficulty": "level", "site": "origin.site"}},
        {"path": str(second), "mapping": {"problem": "q", "answer": "a", "response": "r"}, "teacher": "R1"},
        "embedded",
    ]
    prepared = run(sources, tmp_path / "out", tokenizer, embedded_rows=3)
    split = select_train(prepared, tmp_path / "out")
    table = pq.read_table(split.train)
    assert table.column_names == [*TARGET.names, "metadata"]
    by_source: dict[str, dict[str, str]] = {}
    for row in table.to_pylist():
        by_source.setdefault(row["extra_info"]["source"], {k: v for k, v in row["metadata"].items() if v is not None})
    assert by_source == {
        "first.jsonl": {"license": "MIT", "difficulty": "1", "site": "aops"},
        "second.jsonl": {"teacher": "R1"},
        "embedded": {},
    }
    assert prepared.breakdown["difficulty"] == {"0": {"read": 2, "kept": 2}, "1": {"read": 2, "kept": 2}}
    assert prepared.breakdown["teacher"] == {"R1": {"read": 3, "kept": 3}}
    assert read_prepared(tmp_path / "out") == prepared
    assert not reconcile(prepared, split).problems


def test_a_suite_can_check_the_metadata(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    sources = [{"path": str(jsonl(good(1), good(2))), "license": "MIT"}]
    sources += [{"path": str(jsonl(good(3), name="b.jsonl")), "license": "CC-BY-NC-4.0"}]
    profile = run(sources, tmp_path / "out", tokenizer).profile
    assert [r.name for r in validate(profile) if not r.passed] == ["overlap_looked_for"]  # `$metadata` has its columns
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: ours\nchecks:\n  - {name: licenses, severity: error, description: May be used, type: "
        "expect_column_values_to_be_in_set, kwargs: {column: metadata.license, value_set: [MIT]}}\n"
    )
    assert len(load_checks(suite)) == 1
    (result,) = validate(profile, suite=suite)
    assert not result.passed and "CC-BY-NC-4.0" in str(result.observed)


def test_caps_and_weights_leave_out_what_they_say(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    names = {"a": range(1, 13), "b": range(20, 28), "c": range(40, 47)}
    paths = {name: str(jsonl(*map(good, numbers), name=f"{name}.jsonl")) for name, numbers in names.items()}
    sources = [
        {"path": paths["a"], "weight": 1},
        {"path": paths["b"], "weight": 3},
        {"path": paths["c"], "cap": 5},
    ]
    prepared = run(sources, tmp_path / "out", tokenizer)
    assert kept(prepared) == {"a.jsonl": 2, "b.jsonl": 8, "c.jsonl": 5}
    assert prepared.counts["over_source_cap"] == 12
    details = {row["detail"] for row in rows(prepared.rejected) if row["reason"] == "over_source_cap"}
    assert details == {f"not drawn from {paths['a']} (weight 1)", f"not drawn from {paths['c']} (cap 5)"}
    pool = run(sources, tmp_path / "pool", tokenizer, workers=2)
    assert [path.read_bytes() for path in (pool.prepared, pool.profile, pool.rejected)] == [
        path.read_bytes() for path in (prepared.prepared, prepared.profile, prepared.rejected)
    ]
    assert run(sources, tmp_path / "seed", tokenizer, seed=1).digest != prepared.digest
    assert not reconcile(prepared, select_train(prepared, tmp_path / "out")).problems


@given(st.lists(st.tuples(st.integers(0, 500), st.none() | st.floats(0.01, 100), st.none() | st.integers(1, 400))))
def test_weights_keep_their_proportions(drawn: list[tuple[int, float | None, int | None]]) -> None:
    sources = [Source(path="s", weight=weight, cap=cap) for _, weight, cap in drawn]
    counts = quotas([count for count, _, _ in drawn], sources)
    for quota, (count, _, cap) in zip(counts, drawn, strict=True):
        assert 0 <= quota <= min(count, cap or count)
    weighted = [(q, w, min(n, c or n)) for q, (n, w, c) in zip(counts, drawn, strict=True) if w and n]
    if weighted:
        scale = max(q / w for q, w, _ in weighted)
        assert any(quota == limit for quota, _, limit in weighted)  # as many as there can be
        assert all(quota > scale * weight - 1.001 for quota, weight, _ in weighted)


MESSAGES = [
    {"role": "system", "content": "Think."},
    {"role": "user", "content": "Find 2+2."},
    {"role": "assistant", "content": "<think>\na\n</think>\n\n\\boxed{4}"},
]
SHAREGPT = [{"from": {"user": "human"}.get(m["role"], m["role"]), "value": m["content"]} for m in MESSAGES]
PUBLISHED: dict[str, dict[str, Any]] = {
    "deepmath": {
        "question": "Find 2+2.",
        "final_answer": "4",
        "difficulty": 4.5,
        "topic": "Mathematics -> Algebra",
        **{f"r1_solution_{k}": "<think>\na\n</think>\n\n\\boxed{4}" for k in (1, 2, 3)},
    },
    "openmathreasoning": {
        "problem": "Find 2+2.",
        "expected_answer": "4",
        "problem_type": "has_answer_extracted",
        "problem_source": "aops_c4_high_school_math",
        "generation_model": "DeepSeek-R1",
        "pass_rate_72b_tir": "0.96875",
        "inference_mode": "cot",
        "generated_solution": "<think>\na\n</think>\n\n\\boxed{4}",
        "used_in_kaggle": True,
    },
    "messages": {"messages": MESSAGES, "expected_answer": "4"},
    "conversations": {"id": "x", "conversations": SHAREGPT, "ground_truth": 4},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_forms_are_recognised(tmp_path: Path, jsonl: Any, name: str) -> None:
    row = PUBLISHED[name]
    (shard,) = find_shards(build_config({"source": str(jsonl(row))}))
    traces = list(shard.traces())
    assert [trace.id for trace in traces] == (
        [f"traces.jsonl:0.{k}" for k in range(3)] if name == "deepmath" else ["traces.jsonl:0"]
    )
    for trace in traces:
        assert (trace.problem, trace.gold, trace.reasons) == ("Find 2+2.", "4", [])
        assert trace.response == "<think>\na\n</think>\n\n\\boxed{4}"


def test_hostile_metadata_is_short_text_or_absent(jsonl: Any, good: Any) -> None:
    values: list[Any] = ["x" * 10_000, "nul \0", {"a": [1]}, None, 3.5, True, ["deep", ["er"]]]
    lines = [good(k, level=value) for k, value in enumerate(values, 1)]
    source = {"path": str(jsonl(*lines, '{"level": "lone \\ud800"}', "{broken")), "metadata": ["level"]}
    (shard,) = find_shards(build_config({"source": source}))
    metadata = [trace.metadata.get("level") for trace in shard.traces()]
    assert metadata == ["x" * 200, "nul \ufffd", '{"a": [1]}', None, "3.5", "true", '["deep", ["er"]]', "lone ?", None]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "a.jsonl", "license": "MIT", "metadata": ["license"]}, "for the whole source and as a column"),
        ({"path": "a.jsonl", "metadata": {"a.b": "c"}}, "without dots"),
        (3, r"source\.0: "),
    ],
)
def test_a_source_that_makes_no_sense_is_one_message(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_config({"source": [source]})


def test_two_subsets_of_a_dataset_are_two_sources_and_one_named_twice_is_an_error() -> None:
    blocks = [{"path": "org/set", "split": "cot"}, {"path": "org/set", "split": "tir", "subset": "math"}]
    names = [shard.name for shard in find_shards(build_config({"source": blocks}))]
    assert names == ["org/set/default/cot", "org/set/math/tir"]
    with pytest.raises(InputError, match="named twice"):
        find_shards(build_config({"source": ["org/set", {"path": "org/set"}]}))


def test_domains_and_tokens_are_limited(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    sums = str(jsonl(*(good(k) for k in range(1, 41)), name="sums.jsonl"))
    law = str(jsonl(*(good(k) for k in range(41, 61)), name="law.jsonl"))
    sources = [sums, {"path": law, "domain": "law"}]
    whole = run(sources, tmp_path / "whole", tokenizer)
    lengths = {row["id"]: row["target_tokens"] for row in rows(whole.profile)}
    fewer = run(sources, tmp_path / "fewer", tokenizer, domain_caps={"math": 10})
    assert kept(fewer) == {"sums.jsonl": 10, "law.jsonl": 20} and fewer.counts["over_domain_cap"] == 30
    budget = sum(lengths.values()) // 2
    drawn = run(sources, tmp_path / "drawn", tokenizer, token_budget=budget)
    tokens = sum(row["target_tokens"] for row in rows(drawn.profile))
    assert budget - max(lengths.values()) < tokens <= budget
    assert drawn.counts["over_token_budget"] == len(lengths) - drawn.counts["kept"]
    both = run(sources, tmp_path / "both", tokenizer, token_budget=budget, domain_caps={"law": 5})
    assert kept(both)["law.jsonl"] <= 5
    with pytest.raises(InputError, match="domain_caps: no source has the domain 'art'; expected math, law"):
        run(sources, tmp_path / "none", tokenizer, domain_caps={"art": 5})
