"""Build the tables of a scorecard, and write it as text for a terminal and as Markdown."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from core.cli import printable
from core.ledger_verdicts import VERDICTS
from core.model.lineage_file import Manifest
from core.text.markdown import escape_markdown
from core.text.patterns import compile_quick_pattern
from evaluation.benchmarks.suite import GROUPS
from evaluation.report.scorecard.lineage_summary import composition
from evaluation.report.scorecard.scorecard import Row, Scorecard
from evaluation.report.scorecard.transcripts import SHOWN
from evaluation.report.table import Cell, Table, change, p_value, percent, score
from evaluation.statistics.benchmark_scores import SHARES
from grading.verdict import Verdict

MARKER = compile_quick_pattern(r"<\|[\w ]{1,40}\|>(?:\s*(?:system|user|assistant)\b)?")  # of a chat, in a prompt


def render_text(card: Scorecard, width: int = 100) -> str:
    """Scores, differences and notes for a terminal of ``width`` columns."""
    texts = (
        card.verdict(),
        *([f"{card.decision[0][1]} (details: luffy champion)"] if card.decision else []),
        *(f"note: {warning}" for warning in card.warnings),
    )
    lines = [line for text in texts for line in textwrap.wrap(text, width, subsequent_indent="  ")]
    return "\n".join([scores_table(card, brief=True).to_text(width), *lines, *_gains(card, width)])


def _gains(card: Scorecard, width: int) -> Iterator[str]:
    gains = [transcript for transcript in card.transcripts if transcript.kind == "gained"][:SHOWN]
    if gains:
        yield "\nbefore and after the training:"
    for gain in gains:
        question = MARKER.sub(" ", gain.prompt)
        yield textwrap.shorten(printable(f"{question} -> {gain.gold}"), width, placeholder="…")
        for name, text in (("before", gain.before or ""), ("after ", gain.response)):
            yield f"  {name}  {textwrap.shorten(printable(text), width - 10, placeholder='…')}"


def render_markdown(card: Scorecard) -> str:
    """Return everything but the figures and the samples, for Dagster's metadata and pull requests."""
    names = {"base": card.base, "policy": card.policy} | ({"champion": card.champion} if card.champion else {})
    checkpoints = ", ".join(f"{role} `{digest[:16] or 'not named'}`" for role, digest in names.items())
    parts = [
        f"**{escape_markdown(card.verdict())}**",
        scores_table(card).to_markdown(),
        f"{card.measure()}. Averages are unweighted: each benchmark of a group counts the same. {checkpoints}; "
        f"{card.sampling}",
        *(f"> {escape_markdown(warning)}" for warning in card.warnings),
        *(_subjects_table(row).to_markdown() for row in card.rows if row.subjects),
    ]
    if card.filter_counts:
        parts.append(Table.of_pairs(("targets", "rows left"), card.filter_counts).to_markdown())
    if card.contamination:
        compared = f"{card.contamination.targets:,} training problems compared with {card.contamination.problems:,}"
        parts.append(f"Contamination: {compared} of the benchmarks, {len(card.contamination.matches):,} repeat one.")
    if card.lineage:
        parts += [table.to_markdown() for table in lineage_tables(card.lineage) if table.rows]
        targets = card.lineage.targets.digest[:16]
        parts.append(f"Lineage: targets `{targets}` → policy `{card.policy[:16]}` from base `{card.base[:16]}`.")
    if card.decision:
        parts.append(Table.of_pairs(("promotion", ""), card.decision).to_markdown())
    if card.costs:
        parts.append(Table.of_pairs(("cost", ""), card.costs).to_markdown())
    return "\n\n".join(parts) + "\n"


def scores_table(card: Scorecard, *, brief: bool = False) -> Table:
    """Tabulate benchmarks by group with averages; ``brief``: by name, only base, policy and their difference."""
    champion, published = card.champion and not brief, [] if brief else published_models(card)
    columns = ["", *([] if brief else ["problems"]), "base", "policy", "difference", "p"]
    columns += ["champion", "policy − champion"] if champion else []
    table = Table([*columns, *(f"{name}, published" for name in published)])
    for average in card.averages:
        rows = [row for row in card.rows if row.group == average.group]
        domains = list(dict.fromkeys(row.domain for row in rows))
        ordered = sorted(rows, key=lambda row: domains.index(row.domain))
        for number, row in enumerate(ordered):
            if number == 0 or ordered[number - 1].domain != row.domain:
                of = f": {row.domain}" if len(domains) > 1 else ""
                table.add(f"{GROUPS[average.group]}{of}", kind="group")
            base, policy = (score(s.low, s.mean, s.high) for s in (row.base, row.policy))
            name = [row.name] if brief else [Cell(row.title, f"({row.name})"), _problems(row)]
            cells = [*name, *((base.text, policy.text) if brief else (base, policy))]
            cells += [change(row.difference.mean, row.difference.low, row.difference.high)]
            cells += [p_value(row.difference.p_value)]
            if champion and row.champion and row.gain:
                cells.append(score(row.champion.low, row.champion.mean, row.champion.high))
                cells.append(change(row.gain.mean, row.gain.low, row.gain.high))
            table.add(*cells, *_published_cells(row.published.scores if row.published else {}, published))
        if average.benchmarks > 1:
            cells = [f"average of {average.benchmarks}", *([] if brief else [""])]
            cells += [percent(average.base), percent(average.policy)]
            cells += [change(average.difference, average.low, average.high), ""]
            cells += [percent(average.champion), ""] if champion and average.champion is not None else []
            table.add(*cells, *_published_cells(average.published, published), kind="average")
    return table


def samples_table(card: Scorecard) -> Table:
    """Return the outcomes of the policy's samples, with the base's number as the detail of each cell."""
    several = any(row.policy.k > 1 for row in card.rows)
    solved = ["solved"] if card.has_partial else []
    several_columns = ["pass@k", "maj@k"] if several else []
    episodes = list(next((row.policy.episodes for row in card.rows if row.policy.episodes), {}))
    table = Table(["policy, below it the base", *several_columns, *solved, "tokens", *episodes, *SHARES])
    for row in card.rows:
        base, policy = row.base, row.policy
        cells = [Cell(row.title)]
        if several:
            k = max(policy.pass_at)
            before = percent(base.pass_at[k]) if k in base.pass_at else "fewer samples"
            cells.append(Cell(percent(policy.pass_at[k]), f"k = {k}; {before}"))
            cells.append(Cell(percent(policy.majority), percent(base.majority)))
        if solved:
            after, before = (s.verdicts.get(Verdict.CORRECT, 0) / s.samples for s in (policy, base))
            cells.append(Cell(percent(after), percent(before)))
        cells.append(Cell(f"{policy.mean_tokens:.0f}", f"{base.mean_tokens:.0f}"))
        for name in episodes:
            after, before = (f"{s.episodes[name]:.2f}" if s.episodes else "" for s in (policy, base))
            cells.append(Cell(after, before))
        values = ((getattr(policy, name), getattr(base, name)) for name in SHARES.values())
        table.add(*cells, *(Cell(percent(after), percent(before)) for after, before in values))
    return table


def lineage_tables(lineage: Manifest | None) -> tuple[Table, Table]:
    """Return what the targets are made of, by source, teacher, license or other metadata, and what became of them."""
    table = Table(["targets by", "", "traces read", "targets kept", "share kept"], left=(0, 1))
    previous = ""
    for name, value, read, kept in composition(lineage):
        table.add("" if name == previous else name, value, f"{read:,}", f"{kept:,}", percent(kept / read))
        previous = name
    return table, learned_table((lineage.ledger if lineage else None) or {})


def learned_table(sources: Mapping[str, Mapping[str, int]]) -> Table:
    """Return what a training made of the targets of each source: {source: {verdict of its ledger: targets}}."""
    names = [name for name in VERDICTS if any(name in counts for counts in sources.values())]
    table = Table(["source", *(name.replace("_", " ") for name in names)])
    for source, counts in sources.items():
        table.add(source, *(f"{counts.get(name, 0):,}" for name in names))
    return table


def published_models(card: Scorecard) -> list[str]:
    """Return the models with published scores on any benchmark of the card."""
    return list(dict.fromkeys(name for row in card.rows if row.published for name in row.published.scores))


def _published_cells(scores: Mapping[str, float], models: Sequence[str]) -> list[Cell]:
    return [Cell(f"{scores[model]:.1f}%", tone="published") if model in scores else Cell("") for model in models]


def _problems(row: Row) -> Cell:
    return Cell(str(row.policy.problems), f"× {row.policy.k}" if row.policy.k > 1 else "")


def _subjects_table(row: Row) -> Table:
    table = Table([f"{row.title}, by subject or difficulty", "problems", "base", "policy"])
    for subject in row.subjects:
        table.add(subject.name, str(subject.problems), score(*subject.base), score(*subject.policy))
    return table
