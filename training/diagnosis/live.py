"""Warn of known causes while a training runs: after every step, and in the samples of the first.

A warning stops nothing, and neither does a test that fails. Each cause is reported once, and again if it comes back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import first_line
from training.diagnosis.explain import Finding, explain
from training.diagnosis.record import FIRST, LIVE, SAMPLES, RunRecord
from training.job.records import rollout_log

Warn = Callable[[int, str], None]  # reports a text about a step


class Watch:
    """Looks at a run after each of its steps, of which ``earlier`` attempts made some; ``rollouts`` has the first."""

    def __init__(
        self, config: Mapping[str, Any], warn: Warn, *, earlier: Sequence[Mapping[str, Any]] = (), rollouts: Path | None
    ) -> None:
        self._config = config
        self._warn = warn
        self._records = [*earlier]
        self._rollouts = rollouts
        self._told = {finding.cause.name for finding in self._live()}

    def step(self, record: Mapping[str, Any]) -> None:
        """Warn of what the metrics of one more step show, and once of what the samples of the first step show."""
        self._records.append(record)
        findings = self._live()
        for finding in findings:
            if finding.cause.name not in self._told:
                self._warn(record["step"], finding.line())
        self._told = {finding.cause.name for finding in findings}
        # The samples of the newest step may be half written.
        if self._rollouts and len(steps := rollout_log.steps(self._rollouts)) > 1:
            folder, self._rollouts = self._rollouts, None
            with without_harm(1, self._warn):
                samples = {1: rollout_log.read(folder, 1, SAMPLES)} if steps[0] == 1 else {}
                for finding in explain(RunRecord(self._config, samples=samples), FIRST):
                    self._warn(1, finding.line())

    def _live(self) -> list[Finding]:
        return explain(RunRecord(self._config, self._records), LIVE)


@contextmanager
def without_harm(step: int, warn: Warn) -> Iterator[None]:
    """Make a warning of whatever a look raises: the training does not depend on it."""
    try:
        yield
    except Exception as error:
        text = f"the look for known causes failed, and the training goes on: {type(error).__name__}"
        warn(step, f"{text}: {first_line(error)}")
