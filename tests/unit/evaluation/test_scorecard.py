"""The scorecard says what the rows say, refuses mixed checkpoints, and is one safe page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import manifests
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from core.errors import InputError
from core.model.lineage_file import InputRecord
from core.schemas import TURNS
from evaluation.benchmarks.suite import Benchmark, load_suite
from evaluation.report.scorecard.lineage_summary import composition
from evaluation.report.scorecard.publish import MARKDOWN, NUMBERS, PAGE, TEXT, write_scorecard
from evaluation.report.scorecard.scorecard import build_scorecard
from evaluation.report.scorecard.scorecard_html import render_page, write_page
from evaluation.report.scorecard.scorecard_text import render_markdown, render_text, samples_table
from evaluation.report.table import Cell
from grading.contamination import Contamination, Match

HOSTILE = "</pre><script>alert('x')</script> {{ 7 * 7 }} <img src=x onerror=alert(1)> & \x00"
BASE, POLICY = "b" * 64, "a" * 64
LINEAGE = manifests.manifest(
    request=manifests.request(recipe="<luffy>"),
    targets=manifests.targets(digest="c" * 64, rows=1843),
    base_model=InputRecord(path=Path("base"), digest=BASE),
    checkpoint_digest=POLICY,
    steps=80,
    ledger={"mine.jsonl": {"taught": 1234}},
)
METRICS = [{"step": i, "data": {"reward/on_policy": i / 10, "actor/entropy": float("nan")}} for i in range(1, 9)]


@pytest.fixture(scope="module")
def results(graded):
    """({benchmark: base}, {benchmark: policy}): better in domain, worse on long sums."""

    def make(checkpoint, solved):
        return {
            name: graded({f"p{i}": [int(i < n), "truncated"] for i in range(40)}, name, checkpoint)
            for name, n in solved.items()
        }

    before = make(BASE, {"arithmetic": 4, "arithmetic_long": 30, "arithmetic_mul": 9})
    after = make(POLICY, {"arithmetic": 32, "arithmetic_long": 6, "arithmetic_mul": 10})
    return before, after


@pytest.fixture(scope="module")
def card(results):
    return build_scorecard(
        *results,
        suite=load_suite("embedded"),
        lineage=LINEAGE,
        training_metrics=METRICS,
        filter_counts=[("read", 5073), ["the answer is not the gold answer", 1843]],
    )


def test_rows_follow_the_suite_and_hold_the_scores(card):
    assert [row.name for row in card.rows] == ["arithmetic", "arithmetic_long", "arithmetic_mul"]
    assert [row.group for row in card.rows] == ["evals", "ood", "ood"]
    assert card.rows[0].difference.mean == pytest.approx(28 / 80)
    ood = next(average for average in card.averages if average.group == "ood")
    assert (ood.base, ood.policy) == (pytest.approx(39 / 160), pytest.approx(16 / 160))
    assert ood.difference == pytest.approx(-23 / 160)
    assert ood.low < ood.difference < ood.high < 0
    assert card.verdict().startswith(
        "The trained model is better than the base on 1 of 3 benchmarks and worse on 1 (Sums"
    )
    assert any("arithmetic" not in w and "50% of the samples stopped at the token limit" in w for w in card.warnings)


def test_a_verifier_that_fails_is_quoted_and_one_that_changed_is_named(results):
    base, policy = ({name: table for name, table in tables.items() if name == "arithmetic"} for tables in results)
    table = policy["arithmetic"]
    rows = table.to_pylist()
    rows[1] |= {"verdict": "error", "reason": "raised ValueError: no date", "score": 0.0}
    metadata = {**table.schema.metadata, b"grading": json.dumps({"verifiers": {"python": "another digest"}})}
    changed = {"arithmetic": pa.Table.from_pylist(rows, schema=table.schema.with_metadata(metadata))}
    quoted, named = "1 error; the first: raised ValueError: no date", "arithmetic: the verifier changed after one of"
    texts = [
        "\n".join(build_scorecard(base, scored, suite=load_suite("embedded")).warnings) for scored in (changed, policy)
    ]
    assert [(quoted in text, named in text) for text in texts] == [(True, True), (False, False)]


def test_text_fits_the_terminal_and_markdown_is_a_table(card):
    text = render_text(card, 100)
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"arithmetic +5\.0% +40\.0% +\+35\.0", text)
    markdown = render_markdown(card)
    assert re.search(
        r"\| Sums of 5 to 7 numbers \(arithmetic\) \| 40 × 2 \| 5.0% \[.*\] \| 40.0% \[.*\] \| \+35.0 \[", markdown
    )
    assert f"policy `{POLICY[:16]}`" in markdown


class Page(HTMLParser):
    """Collects tags and checks that they nest."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":  # the only element of the page without an end; SVG's are self-closing
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_self_contained_escaped_and_well_formed(card, results, tmp_path):
    before, after = ({n: t.set_column(t.schema.get_field_index("response"), "response", pc.binary_join_element_wise(
        t["response"], HOSTILE, "")) for n, t in tables.items()} for tables in results)  # fmt: skip
    hostile = build_scorecard(
        before,
        after,
        suite=load_suite("embedded"),
        lineage=LINEAGE.model_copy(update={"upstream": {"note": HOSTILE}}),
        filter_counts=[(HOSTILE, 3)],
    )
    for scorecard in (card, hostile):
        path = tmp_path / "card.html"
        write_page(scorecard, path)
        text = path.read_text(encoding="utf-8")
        assert list(tmp_path.iterdir()) == [path]
        page = Page()
        page.feed(text)
        tags = {tag for tag, _ in page.seen}
        assert not tags & {"script", "link", "img", "iframe", "object"}
        assert not re.search(r"https?://|url\(|@import", text)
        assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    assert "{{ 7 * 7 }}" in text and "alert(&#39;x&#39;)" in text


def test_the_scorecard_is_written_as_page_texts_and_numbers(card, tmp_path):
    write_scorecard(card, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {PAGE, TEXT, MARKDOWN, NUMBERS}
    written = json.loads((tmp_path / NUMBERS).read_text(encoding="utf-8"))
    assert (written["policy"], [row["base"]["benchmark"] for row in written["rows"]]) == (
        POLICY,
        ["arithmetic", "arithmetic_long", "arithmetic_mul"],
    )
    assert (tmp_path / TEXT).read_text(encoding="utf-8") == render_text(card) + "\n"


def test_page_shows_every_part(card):
    text = render_page(card)
    for part in (
        "Scores",
        "Reward of on-policy samples",
        "5,073",
        "\u22123,230",
        "Lineage",
        "cccccccccccccccc",
        "1,234",
        "wrong before training, right after",
        "right before training, wrong after",
        "stopped at the token limit",
        "prefers-color-scheme: dark",
        "@media print",
    ):
        assert part in text, part
    assert re.findall(r"<h2>(.*?)</h2>", text)[:3] == ["Scores", "Training", "Samples"]
    assert "Entropy" not in text  # a curve of nothing but nan is no curve
    assert "&lt;luffy&gt; against its base" in text


def test_partly_right_answers_are_told_apart(graded):
    before, after = graded({"p": [0], "q": [0.5], "r": [0]}, "exam"), graded({"p": [1], "q": [0.6], "r": [1]}, "exam")
    exam = Benchmark(name="exam", group="evals", title="Exam", verifier="number", sources=[{"file": "exam.jsonl"}])
    card = build_scorecard({"exam": before}, {"exam": after}, suite=[exam], explanation=["it learns"])
    page = render_page(card)
    assert "Mean score, to which a partly right answer adds its part" in page and "partly right</span>" in page
    assert re.search(r">solved</th>.*66\.7%.*0\.0%", page, re.DOTALL) and "by the verifier number (exam)" in page
    assert "wrong before training, right after" in page and "<p>it learns</p>" in page
    gains = render_text(card).partition("before and after the training:\n")[2]
    assert gains.count("before ") == gains.count("after ") == 2


def test_mixed_checkpoints_are_refused(results, graded):
    before, after = results
    suite = load_suite("embedded")
    other = graded({f"p{i}": [1, 1] for i in range(40)}, "arithmetic", "d" * 64)
    with pytest.raises(InputError, match=r"the policy's scores are of different checkpoints \(a+, d+\)"):
        build_scorecard(before, after | {"arithmetic": other}, suite=suite)
    with pytest.raises(InputError, match=r"the policy's scores are of checkpoint a+, but the lineage names e+"):
        build_scorecard(before, after, suite=suite, lineage=LINEAGE.model_copy(update={"checkpoint_digest": "e" * 64}))
    with pytest.raises(InputError, match=r"the base's scores are of checkpoint b+, but the lineage names f+"):
        base = InputRecord(path=Path("base"), digest="f" * 64)
        build_scorecard(before, after, suite=suite, lineage=LINEAGE.model_copy(update={"base_model": base}))


def test_unequal_benchmarks_are_refused(results):
    before, after = results
    suite = load_suite("embedded")
    with pytest.raises(InputError, match="arithmetic_long: not graded for both"):
        build_scorecard(before, {n: t for n, t in after.items() if n != "arithmetic_long"}, suite=suite)
    with pytest.raises(InputError, match="arithmetic, arithmetic_long, arithmetic_mul: not in the suite"):
        build_scorecard(before, after, suite=load_suite("paper"))
    with pytest.raises(InputError, match="different problems"):
        build_scorecard(before, after | {"arithmetic": after["arithmetic"].slice(2)}, suite=suite)


def test_the_champion_stands_beside_the_policy(results, graded):
    before, after = results
    solved = {"arithmetic": 20, "arithmetic_long": 6, "arithmetic_mul": 10}
    champion = {
        name: graded({f"p{i}": [int(i < n), "truncated"] for i in range(40)}, name, "c" * 64)
        for name, n in solved.items()
    }
    card = build_scorecard(before, after, suite=load_suite("embedded"), champion=champion)
    assert card.champion == "c" * 64
    assert card.rows[0].gain.mean == pytest.approx(12 / 80)
    assert card.rows[1].gain.mean == 0
    assert next(a for a in card.averages if a.group == "ood").champion == pytest.approx(16 / 160)
    assert re.search(r"\| 25.0% \[[^|]*\| \+15.0 \[", render_markdown(card))
    assert "policy − champion" in render_page(card)
    del champion["arithmetic_mul"]
    with pytest.raises(InputError, match="arithmetic_mul: not graded for the champion"):
        build_scorecard(before, after, suite=load_suite("embedded"), champion=champion)


def test_published_scores_are_marked_and_averaged_where_complete(graded):
    suite = load_suite("paper")
    names = ["aime24", "math500", "arc_c"]
    tables = [{n: graded({"p": [1], "q": [0]}, n, c) for n in names} for c in (BASE, POLICY)]
    card = build_scorecard(*tables, suite=suite)
    markdown = render_markdown(card)
    assert "| Qwen2.5-Math-7B, published | LUFFY, published |" in markdown
    assert re.search(r"\| MATH-500 \(math500\) \|.*\| 43.6% \| 87.6% \|", markdown)
    assert re.search(r"\*average of 2\*.*\| 27.6% \| 58.5% \|", markdown)
    page = render_page(card)
    assert "LUFFY, published" in page and "87.6" in page and "LUFFY, arXiv 2504.14945" in page
    assert page.count(", published</title>") == 6


def test_a_prompt_that_is_not_the_trainings_is_said(results):
    def asked(tables, **facts):
        template = json.dumps({"name": "own", "thinking": True, "frame": "A{problem}", "training": None} | facts)
        return {n: t.replace_schema_metadata({**t.schema.metadata, b"template": template}) for n, t in tables.items()}

    before, after = results
    suite = load_suite("embedded")
    warnings = build_scorecard(asked(before), asked(after, training="B{problem}"), suite=suite).warnings
    expected = "the policy was evaluated with the prompt template own, not with the template of its training"
    assert warnings[0] == f'{expected}: evaluated "A{{problem}}", trained "B{{problem}}"'
    warnings = build_scorecard(asked(before, frame="C{problem}"), asked(after), suite=suite).warnings
    assert warnings[0].startswith("base and policy got different prompts")
    same = asked(before), asked(after, training="A{problem}")
    assert not any("prompt" in warning for warning in build_scorecard(*same, suite=suite).warnings)


def test_contamination_is_shown_and_warned_of(results):
    match = Match("arithmetic", "p1", "What is <1+1>?", 100.0, 1.0)
    found = Contamination(50, 40, (("What is <1+1>?", match),))
    card = build_scorecard(*results, suite=load_suite("embedded"), contamination=found)
    assert "1 training problems repeat benchmark problems (1 of arithmetic)" in " ".join(card.warnings)
    assert "50 training problems compared with 40 of the benchmarks, 1 repeat one." in render_markdown(card)
    assert "What is &lt;1+1&gt;?" in render_page(card)
    clean = build_scorecard(*results, suite=load_suite("embedded"), contamination=Contamination(50, 40, ()))
    assert not any("training problems" in warning for warning in clean.warnings)


def test_subjects_lengths_and_cost_are_on_both_forms(results):
    def labelled(tables):
        return {
            name: table.set_column(
                table.schema.get_field_index("subject"),
                "subject",
                pa.array([f"Kind {row['id'][-1]}" for row in table.to_pylist()]),
            )
            for name, table in tables.items()
        }

    card = build_scorecard(*map(labelled, results), suite=load_suite("embedded"), training_metrics=METRICS)
    assert sum(subject.problems for subject in card.rows[0].subjects) == 40
    page, markdown = render_page(card), render_markdown(card)
    for text in ("By subject or difficulty", "Kind 7 (4)", "right answers over length", "samples of the policy"):
        assert text in page, text
    assert "| Sums of 5 to 7 numbers, by subject or difficulty | problems | base | policy |" in markdown
    assert "| samples of the policy | 240 with 2,520 tokens |" in markdown


def test_different_sampling_is_said(results):
    before, after = results
    other = {n: t.replace_schema_metadata({**t.schema.metadata, b"sampling": b"{}"}) for n, t in before.items()}
    sampled = '{"temperature": 1.0, "top_p": 1.0, "max_tokens": 64, "seed": 3}'
    now = {n: t.replace_schema_metadata({**t.schema.metadata, b"sampling": sampled}) for n, t in after.items()}
    card = build_scorecard(other, now, suite=load_suite("embedded"))
    assert card.sampling == "2 samples per problem, temperature 1, top-p 1, at most 64 tokens, seed 3"
    assert card.warnings[0].startswith("base and policy were sampled with different settings")


def test_the_targets_are_broken_down_by_what_their_sources_declare(results):
    def composed(**metadata):
        values = {"format": "luffy-targets"} | {name: json.dumps(value) for name, value in metadata.items()}
        lineage = LINEAGE.model_copy(update={"targets": manifests.targets(metadata=values)})
        return build_scorecard(*results, suite=load_suite("embedded"), lineage=lineage)

    sources = {"mine.jsonl": {"read": 10, "kept": 4}, "generated.parquet": {"read": 40, "kept": 10}}
    breakdown = {"teacher": {"e" * 64: {"read": 40, "kept": 10}, HOSTILE: {"read": 10, "kept": 4}}}
    breakdown["license"] = {f"license {k}": {"read": 1, "kept": 0} for k in range(50)}
    card = composed(sources=sources, breakdown=breakdown)
    page, markdown = render_page(card), render_markdown(card)
    assert composition(card.lineage)[:3] == [
        ("source", "generated.parquet", 40, 10),
        ("source", "mine.jsonl", 10, 4),
        ("teacher", "e" * 16, 40, 10),
    ]
    assert len(composition(card.lineage)) == 4 + 20  # the most frequent values of each
    assert "What the targets are made of" in page and "<script>alert" not in page and "<script>alert" not in markdown
    assert "| source | generated.parquet | 40 | 10 | 25.0% |" in markdown
    assert "targets by" not in render_markdown(composed(sources={"embedded": {"read": 9, "kept": 9}}, breakdown={}))
    assert composition(composed(sources=sources).lineage)  # several sources without metadata


def test_targets_of_another_preparation_have_no_breakdown(card):
    foreign = {"sources": "not JSON"}  # a file of somebody else may use the key as it likes
    assert not composition(manifests.manifest(targets=manifests.targets(metadata=foreign)))
    assert not composition(card.lineage)


def test_turns_and_calls_are_on_the_page_where_models_call_tools(graded):
    tables = []
    for checkpoint, said in ((BASE, ["2"]), (POLICY, ["2", "error: <b>"])):
        table = graded({"p": [0], "q": [0]}, "arithmetic", checkpoint)
        turns = [[{"role": "assistant", "content": "call"}, *({"role": "tool", "content": text} for text in said)]] * 2
        tables.append({"arithmetic": table.append_column(TURNS, [turns])})
    card = build_scorecard(*tables, suite=load_suite("embedded"))
    assert card.rows[0].policy.episodes == {"turns": 1.0, "calls": 2.0, "failed calls": 1.0}
    table = samples_table(card)
    assert [table.rows[0].cells[table.columns.index(name)] for name in ("calls", "failed calls")] == [
        Cell("2.00", "1.00"),
        Cell("1.00", "0.00"),
    ]
    assert '<span>call</span>\n<span class="soft">2</span>\n<span class="soft">error: &lt;b&gt;' in render_page(card)
