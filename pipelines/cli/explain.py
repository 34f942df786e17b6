"""``luffy explain`` names the first reason why a run does not learn, on the terminal and as a page."""

from pathlib import Path
from typing import Any

from core.cli import say
from core.files import atomic_write
from core.machine.request_paths import check_output, writable_file
from training.diagnosis.explain import Finding, curve_titles, explain, lines, notes, summary
from training.diagnosis.record import RunRecord, read_record
from training.job.run_folder import RunFolder


def explain_run(run: Path, page: Path | None) -> None:
    """Print what is known about the run in the folder or file ``run``, and write the same to the HTML file ``page``."""
    if page is not None:
        check_output(writable_file(page), run)
    run = _run_folder(run)
    record = read_record(run)
    findings = explain(record)
    for line in lines(record, findings):
        say(line)
    if page is not None:
        write_page(record, findings, run.resolve().name, page)
        say(f"{page}: written")


def _run_folder(run: Path) -> Path:
    """Return the folder of the run if ``run`` is its policy's folder, which ``luffy champion`` prints; else ``run``."""
    above = RunFolder(run.resolve().parent)
    return above.path if above.policy == run.resolve() and above.config.is_file() else run


def write_page(record: RunRecord, findings: list[Finding], name: str, page: Path) -> None:
    """Write the page, which opens without a network and shows the text of samples without interpreting it."""
    from evaluation.report.html_page import render

    html = render(
        "explain.html.jinja",
        name=name,
        summary=summary(record),
        notes=notes(record, findings),
        findings=[_on_page(record, finding) for finding in findings],
    )
    with atomic_write(page) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _on_page(record: RunRecord, finding: Finding) -> dict[str, Any]:
    from evaluation.report.figures import training_curves
    from evaluation.report.html_page import figure

    cause, evidence = finding.cause, finding.evidence
    drawn = training_curves(record.records, curve_titles(evidence.curve))
    return {
        "name": cause.name,
        "title": cause.title,
        "change": cause.keys,
        "link": cause.link,
        "text": evidence.text,
        "samples": evidence.samples,
        "figure": figure(drawn[0]) if drawn else None,
    }
