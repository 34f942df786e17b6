"""What the UI shows about a training: its curves, with the champion's and without, where the time went, and samples."""

from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.metadata import cell, pictures, rounded, rows_table
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.metric_table import REWARD, VALIDATION_SCORE, View, is_finite, read_step_metrics, titles
from evaluation.promotion.champions import Registry

SAMPLES = 4  # number from the first step, and from the last
METRICS_FILE = "metrics.jsonl"


def curves(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the full curves as pictures."""
    from evaluation.report.figures import training_curves

    recorded = {name for record in records for name in record["data"]}
    drawn = training_curves(records, titles(View.POLICY, recorded))
    return {"curves": pictures(*drawn)} if drawn else {}


def numbers(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last reward and validation, which the UI plots over runs, and where the time went."""
    from training.job.records.metrics_log import time_by_phase

    metadata: dict[str, Any] = {}
    if records and is_finite(reward := records[-1]["data"].get(REWARD)):
        metadata["reward"] = rounded(reward)
    scores = [record["data"].get(VALIDATION_SCORE) for record in records]
    if validated := [score for score in scores if is_finite(score)]:
        metadata |= {"validation": rounded(validated[-1]), "best validation": rounded(max(validated))}
    if spent := time_by_phase(records):
        total = sum(spent.values())
        rows = ((name, f"{seconds:,.1f}", f"{seconds / total:.1%}") for name, seconds in spent.items())
        metadata["time by phase"] = rows_table(("phase", "seconds", "share"), rows)
    return metadata


def against_champion(registry: Registry, digest: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run's curves next to the champion's, or one sentence that says why there are none."""
    return {"against the champion": dg.MetadataValue.md(_against_champion(registry, digest, records))}


def _against_champion(registry: Registry, digest: str, records: list[dict[str, Any]]) -> str:
    from evaluation.report.charts import LIGHT
    from evaluation.report.figures import metric_curves

    try:
        if (champion := registry.champion()) is None:
            return "There is no champion to compare with: registry/champion names one once a policy is promoted."
        if champion.checkpoint == digest:
            return "This policy is the champion."
        recorded = read_step_metrics(Path(champion.policy).parent / METRICS_FILE)
    except InputError as error:  # the policy is trained, whatever became of the champion's files
        return f"The champion's curves cannot be shown: {cell(error)}"
    name = f"champion {champion.checkpoint[:SHORT_DIGEST]}"
    runs = {name: [recorded], "this run": [records]}
    colours = {name: LIGHT["champion"], "this run": LIGHT["policy"]}
    drawn = (
        metric_curves(metric, title, runs, colours, legend=True) for metric, title in titles(View.CHAMPION).items()
    )
    svgs = [svg for svg in drawn if svg]
    return pictures(*svgs).value if svgs else f"Neither this run nor {name} recorded the metrics that are compared."


def explanation(out: Path) -> dict[str, Any]:
    """Explain why the run in folder ``out`` does not learn: the first cause and its evidence, or that there is none."""
    from evaluation.report.figures import training_curves
    from training.diagnosis.explain import curve_titles, explain, markdown
    from training.diagnosis.record import read_record

    record = read_record(out)
    findings = explain(record)
    text = markdown(record, findings)
    shown = curve_titles(findings[0].evidence.curve) if findings else {}
    if drawn := training_curves(record.records, shown):
        text += f"\n\n{pictures(*drawn).value}"
    return {"explanation": dg.MetadataValue.md(text)}


def explanation_lines(out: Path) -> list[str]:
    """Say in a sentence or two what happened in the run in folder ``out``, and why it does not learn if it does not."""
    from training.diagnosis.explain import explain, summary
    from training.diagnosis.record import read_record

    record = read_record(out)
    return [summary(record), *(finding.line() for finding in explain(record)[:1])]


def samples(folder: Path) -> dict[str, Any]:
    """Return some samples of the first and of the last step, as a table of plain text."""
    from training.job.records import rollout_log

    steps = rollout_log.steps(folder)
    rows = (
        (step, one.prompt, one.response, one.gold, one.prefix_length, f"{one.reward:g}")
        for step in dict.fromkeys([*steps[:1], *steps[-1:]])
        for one in rollout_log.read(folder, step, SAMPLES)
    )
    columns = ("step", "prompt", "response", "gold", "off-policy tokens", "reward")
    return {"samples": rows_table(columns, rows, left=(1, 2, 3))} if steps else {}
