"""The last line of `make test`: how many tests passed, failed and were skipped, and why."""

import json
import sys
from collections import Counter
from pathlib import Path


def summary(lines: list[str]) -> str:
    """One line for the counts of several runs of pytest.

    >>> summary(['{"passed": 3, "failed": 0, "skipped": ["no strace"]}', '{"passed": 2, "failed": 1, "skipped": []}'])
    '5 passed, 1 failed, 1 skipped: 1 no strace'
    """
    runs = [json.loads(line) for line in lines]
    reasons = Counter(reason for run in runs for reason in run["skipped"])
    counts = f"{sum(run['passed'] for run in runs)} passed, {sum(run['failed'] for run in runs)} failed"
    if not reasons:
        return counts
    why = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"{counts}, {reasons.total()} skipped: {why}"


if __name__ == "__main__":
    print(summary(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
