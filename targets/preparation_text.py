"""What the commands of ``python -m targets`` print: counts, checks, and the difference of two preparations."""

from collections.abc import Sequence
from pathlib import Path

from core.cli import say
from targets.check.checks_page import write_page
from targets.check.expectations import summarize, validate
from targets.check.source_drift import OF_TWO
from targets.check.version_diff import Difference
from targets.prepared_files import Prepared, column_texts, hint_texts, log_probs_text, read_example, reuse_texts
from targets.select.split import Split

MOST_VALUES = 10  # of each metadata, on the terminal
LONGEST_PROBLEM = 160  # characters of a problem that came or went


def print_difference(difference: Difference) -> None:
    """Print two versions side by side, and the rows that came and went."""
    print_lines([(what, f"{before:,}", f"{now:,}") for what, before, now in difference.lines])
    for what, rows in (("went", difference.went), ("came", difference.came)):
        say(f"\nproblems that {what}{'' if rows else ': none'}")
        for row in rows:
            problem = " ".join(row.problem.split())
            say(f"  {row.id}  {row.target_tokens:,} tokens, gold {row.gold}, in the other version {row.elsewhere}")
            say(f"    {problem[:LONGEST_PROBLEM]}{'…' if len(problem) > LONGEST_PROBLEM else ''}")


def print_lines(lines: Sequence[tuple[str, str, str]]) -> None:
    width = max(len(what) for what, _, _ in lines)
    for what, before, now in lines:
        say(f"{what:{width}}{before:>14}{now:>14}")


def print_preparation(prepared: Prepared, split: Split | None, seconds: float) -> None:
    for text in (*column_texts(prepared), *reuse_texts(prepared)):
        say(text)
    read = prepared.counts["read"]
    say(f"{'read':18}{read:>9,}")
    for step in prepared.filter_counts:
        why = read_example(prepared.rejected, step["filter"]) if step["filter"] == "verify_error" else ""
        say(f"{step['filter']:18}{-step['removed']:>9,}{step['left']:>9,}  {step['title']}{why and '.'}{why}")
    speed = "nothing has changed, so nothing was done" if prepared.reused else f"{read / seconds:,.0f} rows/s"
    say(f"{'kept':18}{prepared.counts['kept']:>9,}  {speed}")
    for name, n in sorted(prepared.by_source.items()) if len(prepared.by_source) > 1 else ():
        say(f"{f'source {name}':44.44}{n['read']:>9,}{n.get('kept', 0):>9,} kept")
    for name, values in prepared.breakdown.items():
        for value, n in list(values.items())[:MOST_VALUES]:
            say(f"{f'{name} {value}':44.44}{n['read']:>9,}{n['kept']:>9,} kept")
    for hint in hint_texts(prepared):
        say(hint)
    for what, count in prepared.disagreements.items():
        say(f"{what}: {count:,}")
    if prepared.log_probs:
        say(f"target_log_probs: {log_probs_text(prepared)}")
    if split is not None:
        say(f"train {split.rows:,} rows {split.train}, held out {split.heldout_rows:,}")
    say(f"rejected: {prepared.rejected}")


def check_and_print(prepared: Prepared, suite: Path, previous: Path | None, docs: Path | None) -> int:
    results = validate(prepared.profile, suite=suite, previous=previous)
    if docs:
        write_page(results, docs)
    failed = [result for result in results if not result.passed]
    for result in failed:
        what = result.observed_text
        limits = ", ".join(f"{name} {value}" for name, value in result.expected.items() if name != "column")
        what += f"; expected: {result.description.removesuffix('.')}" + (f" ({limits})" if limits else "")
        say(f"{'FAILED' if result.severity == 'error' else 'warning':8}{result.name:32}{what}")
    if previous is None and (of_two := sum(result.expected.get("column") in OF_TWO for result in results)):
        say(f"{of_two} checks have nothing to compare with yet: --previous names an earlier preparation")
    for line in summarize(results):
        say(line)
    return int(any(result.severity == "error" for result in failed))
