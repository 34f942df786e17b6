"""The page of rows in Chromium, from a file and offline: filters, search, formulas, hostile texts, reviews."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import trace

from core.browser.page import Page, Row
from core.browser.page import write_page as write_rows
from core.ledger_verdicts import LEARNED_FILE
from core.schemas import LEARNED
from pipelines.cli.explain import explain_run, write_page
from targets import trace_browser
from targets.__main__ import main
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.select.split import reconcile, select_train
from targets.settings import build_config
from training.diagnosis.explain import explain
from training.diagnosis.record import RunRecord
from training.job.records.rollout_log import Rollout

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "training" / "embedded_model" / "model"
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'></script><svg onload=alert(1)>"
    "$\\href{javascript:window.pwned=1}{x}$ $\\includegraphics{http://127.0.0.1:9/x.png}$ $\\htmlData{a=b}{x}$ "
    "$\\def\\x{\\x\\x}\\x$ $$\\frac{1$$ \\boxed{never closed " + "$" + "{" * 900 + "$ \u2028 @INDEX@ @SCRIPT@ -->"
)


@pytest.fixture
def opened(browser) -> Iterator[Callable[[Path], Any]]:
    """Opens a page from its file. An error in the console, a dialog or a request to another place fails the test."""
    with browser.new_context(viewport={"width": 1400, "height": 900}, offline=True) as context:
        wrong: list[str] = []

        def open_file(file: Path, *, violation: bool = False, heading: str = "article h2") -> Any:
            page = context.new_page()
            page.set_default_timeout(20_000)
            if not violation:
                page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("dialog", lambda dialog: wrong.append(dialog.message))
            page.on("request", lambda request: None if request.url == file.as_uri() else wrong.append(request.url))
            page.goto(file.as_uri())
            page.locator(heading).wait_for()
            return page

        yield open_file
        assert not wrong


def prepared_targets(source: Path, out: Path, review: Path | None = None) -> Prepared:
    settings = {"source": str(source), "workers": 1, "near_duplicate": 80, "review": str(review) if review else None}
    return prepare(build_config(settings), out, tokenizer_json=MODEL)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces, and what a preparation makes of them: two kept, and a wrong, a repeated and a hostile one."""
    folder = tmp_path_factory.mktemp("targets")
    formula = trace(
        2,
        response="<think>\nAs $x_2^2 = 4$, it is \\(\\frac{8}{2}\\), \\boxed{an even one}.\n</think>\n\n"
        "So \\boxed{\\frac{8}{2}}",
    )
    near = trace(1, problem=trace(1)["problem"].replace("has he", "does he have"))
    hostile = trace(4, response=f"<think>\n{HOSTILE}\n</think>\n\n\\boxed{{5}}", problem=HOSTILE)
    rows = [trace(1), formula, near, trace(3, answer="7"), hostile]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepared_targets(folder / "t.jsonl", folder / "out")
    assert main(["browse", str(folder / "out"), "--out", str(folder / "page.html")]) == 0
    return folder


def lines(page: Any) -> list[str]:
    page.wait_for_timeout(300)
    return page.locator(".line").all_inner_texts()


def count(page: Any, text: str) -> None:
    page.locator("#count", has_text=re.compile(f"^{text}$")).wait_for()


def test_every_trace_is_listed_with_its_reason_and_can_be_filtered(opened, targets: Path) -> None:
    page = opened(targets / "page.html")
    count(page, "5 of 5 rows")
    page.select_option("select[name=reason]", label="kept (2)")
    count(page, "2 of 5 rows")
    page.select_option("select[name=reason]", "")
    page.select_option("select[name=verdict]", label="wrong (1)")
    count(page, "1 of 5 rows")
    page.select_option("select[name=verdict]", "")
    page.fill("#shortest", "1000")
    count(page, "1 of 5 rows")
    page.fill("#shortest", "")
    page.fill("#query", "TWICE 3 is")
    count(page, "1 of 5 rows")
    assert "wrong" in lines(page)[0]
    page.fill("#query", "nothing has this")
    count(page, "0 of 5 rows")
    page.get_by_text("No row fits the filters.").wait_for()


def test_traces_are_filtered_by_what_a_training_made_of_them(opened, screenshot, targets: Path) -> None:
    rows = [
        {"target": f"t.jsonl:{k}", "verdict": verdict, "uses": 2, "loss_share": 0.25, "first_prob": 0.5, "last_prob": p}
        for k, verdict, p in ((0, "taught", 0.75), (1, "not_learned", 0.4))
    ]
    run = targets / "run"
    run.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=LEARNED), run / LEARNED_FILE)
    assert main(["browse", str(targets / "out"), "--out", str(targets / "l.html"), "--ledger", str(run)]) == 0
    page = opened(targets / "l.html")
    count(page, "5 of 5 rows")
    page.select_option("select[name=training]", label="not in the training (3)")
    count(page, "3 of 5 rows")
    page.select_option("select[name=training]", label="not learned (1)")
    count(page, "1 of 5 rows")
    assert "not learned" in lines(page)[0]
    page.get_by_text("0.50 to 0.40").wait_for()
    page.get_by_text("probability, first to last").wait_for()
    screenshot(page, "ledger")


def test_the_page_of_an_explanation_has_cause_curve_and_samples(opened, screenshot, tmp_path: Path) -> None:
    explain_run(ROOT / "tests/unit/training/explain_runs/end_token.zip", tmp_path / "page.html")
    page = opened(tmp_path / "page.html", heading="h1")
    first = page.locator("section").first
    assert first.get_attribute("id") == "end_token" and "100% of the first samples" in first.inner_text()
    assert "eos_token in the model's tokenizer_config.json" in first.inner_text()
    assert first.locator("pre").count() == 6 and "144 tokens" in first.inner_text()
    assert first.locator("svg path").count() > 2 and page.locator("script").count() == 0
    screenshot(page, "explain")


def test_a_hostile_sample_of_a_run_is_only_text(opened, tmp_path: Path) -> None:
    record = RunRecord({"data": {"max_response_length": 9}}, samples={1: [Rollout("p", HOSTILE, HOSTILE, 0, 0, 9)] * 4})
    write_page(record, explain(record), HOSTILE, tmp_path / "page.html")
    page = opened(tmp_path / "page.html", heading="h1")
    assert page.evaluate("window.pwned") is None and "onerror=" in page.locator("pre").nth(1).inner_text()
    assert page.locator("body img, body script, body svg[onload]").count() == 0


def test_a_row_shows_thoughts_and_answer_beside_the_gold_answer_and_the_duplicate(opened, targets: Path) -> None:
    page = opened(targets / "page.html")
    page.fill("#query", "x_2^2")
    count(page, "1 of 5 rows")
    page.locator(".thoughts .katex").first.wait_for()
    assert page.locator(".answer .katex .fbox").count() == 1
    assert page.locator(".thoughts .katex .text").inner_text().split() == ["an", "even", "one"]
    assert page.locator(".gold .words").inner_text() == "4"
    fonts = page.evaluate(
        "document.fonts.ready.then(() => [...document.fonts].filter(f => f.status === 'loaded').length)"
    )
    assert fonts > 0
    page.check("#raw")
    page.get_by_text("So \\boxed{\\frac{8}{2}}").wait_for()
    page.fill("#query", "does he have")
    page.get_by_text("Repeats t.jsonl:0").wait_for()
    assert page.locator(".problem .words").inner_text() == trace(1)["problem"].replace("has he", "does he have")
    assert page.locator(".duplicate .words").inner_text() == trace(1)["problem"]
    assert "Twice 1 is 2." in page.locator(".duplicate-response .words").inner_text()


def test_a_hostile_row_is_only_text(opened, targets: Path) -> None:
    page = opened(targets / "page.html")
    page.fill("#query", "window.pwned")
    count(page, "1 of 5 rows")
    page.locator(".thoughts").wait_for()
    assert "<script>window.pwned = 1</script><img src=x" in page.locator(".problem .words").inner_text()
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main svg[onload], main a").count() == 0


def test_a_page_runs_no_script_but_its_own(opened, tmp_path: Path) -> None:
    turns = (("assistant", HOSTILE), ("tool", HOSTILE))
    row = Row(HOSTILE, (HOSTILE, ""), HOSTILE, HOSTILE, HOSTILE, 9, {HOSTILE: HOSTILE}, turns, HOSTILE, HOSTILE)
    write_rows(Page(HOSTILE, (HOSTILE, "b"), {HOSTILE: HOSTILE}, review=True), [row], 1, tmp_path / "page.html")
    page = opened(tmp_path / "page.html", violation=True)
    assert page.title().startswith("<script>window.pwned = 1</script>")
    assert page.locator("h2").inner_text().startswith("<script>")
    blocked = page.evaluate(
        """() => new Promise(resolve => {
             document.addEventListener("securitypolicyviolation", event => resolve(event.violatedDirective));
             document.body.append(Object.assign(document.createElement("script"), {textContent: "window.pwned = 1"}));
             setTimeout(() => resolve("nothing"), 3000);
           })"""
    )
    assert blocked == "script-src-elem" and page.evaluate("window.pwned") is None
    page.close()


def test_a_review_is_downloaded_continued_and_honoured(opened, targets: Path, tmp_path: Path) -> None:
    page = opened(targets / "page.html")
    page.fill("#reviewer", 'Ada "A.", L.')
    page.locator(".line", has_text="A farmer has 1 sheep").first.click()
    page.get_by_role("heading", name="t.jsonl:0", exact=True).wait_for()
    page.check("input[name=decide][value=refuse]")
    page.fill("#note", "a note, with\ttab and ü")
    page.locator("#note").blur()
    page.locator(".line", has_text="A farmer has 2 sheep").first.click()
    page.get_by_role("heading", name="t.jsonl:1", exact=True).wait_for()
    page.keyboard.press("k")
    page.get_by_text("1 refused, 1 kept").wait_for()
    with page.expect_download() as download:
        page.click("#download")
    review = tmp_path / "review.csv"
    download.value.save_as(review)
    prepared = prepared_targets(targets / "t.jsonl", tmp_path / "out", review)
    assert prepared.counts == {"read": 5, "kept": 2, "figure": 1, "wrong": 1, "review": 1}
    assert not reconcile(prepared, select_train(prepared, tmp_path / "out")).problems

    trace_browser.browse(prepared, tmp_path / "page.html")
    page = opened(tmp_path / "page.html")
    page.set_input_files("#earlier", review)
    page.get_by_text("1 refused, 1 kept").wait_for()
    page.select_option("#decision", "refuse")
    count(page, "1 of 5 rows")
    assert page.get_by_text('Ada "A.", L.: a note, with\ttab and ü').count() == 1
    assert page.input_value("#note") == "a note, with\ttab and ü"


def test_ten_thousand_rows_are_listed_filtered_and_searched(opened, tmp_path: Path) -> None:
    """The limits are generous, for a busy machine."""
    rows = (
        Row(
            f"r:{k}",
            ("kept" if k % 5 else "wrong", f"s{k % 3}"),
            f"Problem {k}",
            "1",
            f"{'word ' * 300}{k * 7} $x$",
            1500,
        )
        for k in range(10_000)
    )
    assert write_rows(Page("Many", ("reason", "source")), rows, 10_000, tmp_path / "page.html") == 10_000
    page = opened(tmp_path / "page.html")
    count(page, "10,000 of 10,000 rows")
    assert page.locator(".line").count() < 200
    page.select_option("select[name=reason]", label="wrong (2,000)")
    count(page, "2,000 of 10,000 rows")
    page.select_option("select[name=reason]", "")
    page.evaluate("document.getElementById('list').scrollTop = 1e9")
    page.get_by_text("Problem 9999").wait_for()
    page.fill("#query", " 69993 ")
    count(page, "1 of 10,000 rows")
    page.get_by_role("heading", name="r:9999").wait_for()
    assert all(entry < 20_000 for entry in page.evaluate("performance.getEntriesByName('filter').map(e => e.duration)"))
