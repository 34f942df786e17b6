"""Problems with the same meaning, found by the vectors of a server that the tests start."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from core.errors import InputError
from core.schemas import BENCHMARK
from targets.config import build_config
from targets.embedding import similarity
from targets.embedding.embedding_client import Embedder as Client
from targets.embedding.embedding_client import Endpoint
from targets.embedding.embedding_settings import EmbeddingSettings
from targets.embedding.similarity import numbers, same_numbers, similar_before
from targets.prepared_files import Prepared
from tests.embedders import Embedder
from tests.preparing import rows, run

LABELLED = Path(__file__).parents[2] / "golden" / "labelled_problems.yaml"
PROBLEMS = [{name: str(text) for name, text in row.items()} for row in yaml.safe_load(LABELLED.read_text("utf-8"))]


def column(name: str) -> list[str]:
    """One form of all problems."""
    return [row[name] for row in PROBLEMS]


def solved(problem: str, gold: str) -> dict[str, str]:
    return {
        "problem": problem,
        "answer": gold,
        "response": f"<think>\nWe compute {gold}.\n</think>\n\nIt is \\boxed{{{gold}}}.",
    }


def traces(*forms: str) -> list[dict[str, str]]:
    """The problems, then their other forms, each with a trace."""
    return [solved(row[form], row["gold"]) for form in ("problem", *forms) for row in PROBLEMS]


def settings(url: str, **changes: Any) -> dict[str, Any]:
    return {"model": "trigrams", "url": url, "timeout_s": 10, "semantic_duplicate": 75} | changes


def benchmarks(problems: list[str]) -> pa.Table:
    items = [{"benchmark": "mine", "id": str(n), "problem": text} for n, text in enumerate(problems)]
    return pa.Table.from_pylist(items, schema=BENCHMARK)


def reasons(prepared: Prepared) -> dict[str, tuple[str, str, str]]:
    return {row["problem"]: (row["reason"], row["detail"], row["duplicate_of"]) for row in rows(prepared.rejected)}


def test_semantic_duplicates_need_the_gold_and_the_numbers(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    other_gold = [solved(row["light"].replace("?", " today?"), "7") for row in PROBLEMS[:4]]
    source = jsonl(*traces("light", "other_numbers"), *other_gold)
    without = run(source, tmp_path / "without", tokenizer)
    assert without.counts["kept"] > 2 * len(PROBLEMS) and not embedder[0].texts
    prepared = run(source, tmp_path / "out", tokenizer, embedding=settings(embedder[1]))
    rejected = reasons(prepared)
    near = [row for row in PROBLEMS if rejected[row["light"]][0] == "near_duplicate"]
    for number, row in enumerate(PROBLEMS):
        reason, detail, kept = rejected[row["light"]]
        assert kept == f"traces.jsonl:{number}"
        assert row in near or (
            reason == "semantic_duplicate" and f"% similar in meaning to the problem of {kept}" in detail
        )
    assert len(near) < len(PROBLEMS) / 2 and len(rejected) == len(PROBLEMS)
    assert prepared.counts["kept"] == 2 * len(PROBLEMS) + len(other_gold)


def test_paraphrased_benchmarks_are_named_with_their_similarity(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    suite = benchmarks(column("problem"))
    source = jsonl(*[solved(row[form], row["gold"]) for form in ("light", "other_numbers") for row in PROBLEMS])
    chosen = settings(embedder[1], semantic_duplicate=None, paraphrased_benchmark=75)
    prepared = run(source, tmp_path / "out", tokenizer, benchmarks=suite, embedding=chosen)
    rejected = reasons(prepared)
    for number, row in enumerate(PROBLEMS):
        reason, detail, of = rejected[row["light"]]
        assert of == f"mine/{number}" and reason in ("contaminated", "paraphrased_benchmark")
        assert reason == "contaminated" or (detail.startswith(f"mine/{number}: ") and "% similar in meaning" in detail)
    assert prepared.counts["paraphrased_benchmark"] >= 4
    assert {row["duplicate_problem"] for row in rows(prepared.rejected)} <= {*column("problem")}


def test_a_further_file_costs_its_own_vectors(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    state, url = embedder
    jsonl(*traces(), name="in/a.jsonl")

    def prepare(out: str, **changes: Any) -> Prepared:
        state.texts.clear()
        chosen = settings(url, paraphrased_benchmark=95, **changes)
        suite = benchmarks(["Is this a problem of a benchmark that has nothing to do with all the others?"])
        return run(
            tmp_path / "in", tmp_path / out, tokenizer, benchmarks=suite, cache=tmp_path / "cache", embedding=chosen
        )

    prepare("first")
    assert len(state.texts) == 1 + 1 + len(PROBLEMS)  # the first question, the benchmark, the problems
    jsonl(*traces("light")[len(PROBLEMS) :], name="in/b.jsonl")
    second = prepare("second")
    assert {*state.texts[1:]} == {*column("light")} and second.counts["semantic_duplicate"]
    assert prepare("third", semantic_duplicate=99).counts["kept"] > second.counts["kept"]
    assert not state.texts  # the server is not even asked
    prepare("prefix", prefix="query: ")
    assert len(state.texts) == 2 + 2 * len(PROBLEMS) and state.texts[-1].startswith("query: ")


def test_the_same_bytes_whatever_the_number_of_workers(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    forms = [*traces("light", "paraphrase", "other_numbers")] * 20
    source = jsonl(*[{**row, "problem": f"{row['problem']} ({n})"} for n, row in enumerate(forms)])
    chosen = settings(embedder[1], semantic_duplicate=70)
    digests = [run(source, tmp_path / str(n), tokenizer, workers=n, embedding=chosen).digest for n in (1, 2)]
    assert digests[0] == digests[1]
    files = [(tmp_path / n / "rejected.parquet").read_bytes() for n in ("1", "2")]
    assert files[0] == files[1]


def test_blocks_of_a_large_group_lose_no_pair(embedder: tuple[Embedder, str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [row[form] for row in PROBLEMS for form in ("problem", "light", "paraphrase", "other_numbers")]
    config = EmbeddingSettings(**settings(embedder[1]))
    with Client(Endpoint.reach(config, embedder[1])) as client:
        vectors = client.vectors(texts)
    expected = list(similar_before(texts, vectors, 0, len(texts), 60))
    assert len(expected) >= len(PROBLEMS)
    monkeypatch.setattr(similarity, "ROWS", 5)
    monkeypatch.setattr(similarity, "COLUMNS", 7)
    found = [
        pair
        for start in range(0, len(texts), 11)
        for pair in similar_before(texts, vectors, start, min(start + 11, len(texts)), 60)
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("3 apples and 4 pears", "four pears, three apples", True),
        ("3 apples and 4 pears", "2 apples and 5 pears", False),
        ("1,200 sheep", "1200 sheep", True),
        ("a rise of 2.5 percent", "a rise of 2.4 percent", False),
        ("3x + 7 = 22", "Three times a number, plus 7, is 22", True),
        ("the sum of 5 and 5", "the sum of 5", True),
        ("no number", "none at all", True),
    ],
)
def test_numbers_of_two_problems(first: str, second: str, same: bool) -> None:
    assert same_numbers(numbers(first), numbers(second)) is same


BAD_ANSWERS = {
    "no list": ({"data": "x"}, "expected the form of /v1/embeddings"),
    "too few": ({"data": []}, "it answered 0 vectors to 1 problems"),
    "zeros": ({"data": [{"index": 0, "embedding": [0.0, 0.0]}]}, "a vector of zeros"),
    "empty": ({"data": [{"index": 0, "embedding": []}]}, "a vector of 0 numbers"),
    "NaN": ({"data": [{"index": 0, "embedding": [float("nan"), 1.0]}]}, "not finite"),
    "text": ({"data": [{"index": 0, "embedding": "QUJD"}]}, "expected the form of /v1/embeddings"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_a_bad_answer_is_named(
    kind: str, tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    embedder[0].body, message = BAD_ANSWERS[kind]
    with pytest.raises(InputError, match=message):
        run(jsonl(*traces()), tmp_path / "out", tokenizer, embedding=settings(embedder[1]))
    assert not (tmp_path / "out" / "train.parquet").exists()


def test_another_model_under_the_same_name_is_noticed(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    state, url = embedder
    jsonl(*traces(), name="in/a.jsonl")
    run(tmp_path / "in", tmp_path / "out", tokenizer, cache=tmp_path / "cache", embedding=settings(url))
    jsonl(*traces("light")[len(PROBLEMS) :], name="in/b.jsonl")
    state.size = 64
    with pytest.raises(InputError, match="vectors of several lengths, so the endpoint has served several models"):
        run(tmp_path / "in", tmp_path / "again", tokenizer, cache=tmp_path / "cache", embedding=settings(url))
    with pytest.raises(InputError, match="its vectors have 64 numbers, and 512 had those that an earlier"):
        again = {"max_repeats": 19, "embedding": settings(url)}
        run(tmp_path / "in", tmp_path / "filters", tokenizer, cache=tmp_path / "cache", **again)


def test_an_endpoint_that_does_not_work_is_named(
    tmp_path: Path, tokenizer: Path, jsonl: Any, embedder: tuple[Embedder, str]
) -> None:
    state, url = embedder
    source = jsonl(*traces())

    def refused(message: str, address: str = url, **changes: Any) -> None:
        with pytest.raises(InputError, match=message):
            run(source, tmp_path / "out", tokenizer, embedding=settings(address, **changes))

    refused("it cannot be reached .*start the server, or correct embedding.url", "http://127.0.0.1:9/v1")
    refused("404 .*at an address ending in /v1", url.removesuffix("/v1"))
    for status, message in ((401, "refuses the key"), (400, "max_characters lower"), (418, "failed after 3 retries")):
        state.status = status
        refused(message)
    state.status, state.seconds = 200, 3.0
    refused("no answer within 0.2 s; set embedding.timeout_s higher", timeout_s=0.2)
    with pytest.raises(InputError, match=r"no model folder; give one, or with embedding.url the name of a model"):
        run(source, tmp_path / "out", tokenizer, embedding={"model": str(tmp_path), "semantic_duplicate": 90})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"semantic_duplicate": None}, "give semantic_duplicate or paraphrased_benchmark"),
        ({"url": "localhost:8000"}, "expected an address such as http://localhost:8000/v1"),
        ({"url": "http://me:pa55word@host/v1"}, "url: it holds a user or a password"),
        ({"treshold": 90}, "treshold"),
        ({"semantic_duplicate": 0.9}, "50"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        build_config({"embedding": settings("http://localhost:8000/v1") | changes})
    assert "pa55word" not in str(error.value)


def test_the_model_decides_what_is_prepared_again(tmp_path: Path) -> None:
    def digests(**changes: Any) -> tuple[str, str]:
        config = build_config({"embedding": settings("http://localhost:8000/v1") | changes})
        assert build_config(json.loads(json.dumps(config.model_dump(mode="json")))) == config
        return config.digest(), config.filter_digest()

    same = digests()
    assert digests(batch=8, timeout_s=1) == same
    assert digests(semantic_duplicate=80)[1] == same[1] and digests(semantic_duplicate=80)[0] != same[0]
    for changes in ({"model": "other"}, {"prefix": "query: "}, {"url": "http://localhost:9/v1"}):
        assert digests(**changes)[1] != same[1]
