"""Look for the causes that need no training, in a few targets of a run that is about to start."""

import asyncio
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from core.model.episodes import final_turn
from core.model.prompts import OPEN_THOUGHTS, render_target
from core.model.token_counts import Lengths, load_lengths
from core.parquet import read_table
from core.schemas import SAMPLE
from grading.row_fields import row_fields
from grading.verdict import Verdict
from grading.verifiers.spec import VerifierSpec, open_verifier, parse_spec
from training.config.to_verl import chat_template, compose_run, tools_of
from training.diagnosis.explain import Finding, explain, seen
from training.diagnosis.live import Warn, without_harm
from training.diagnosis.record import BEFORE, FIRST, RunRecord, sample_rows
from training.job.input_checks import MATH, read_verifiers
from training.job.records.rollout_log import Rollout
from training.job.request import TrainingRequest
from training.job.user_reward import SHIPPED, VERIFIERS, RewardError, compute_score

SECONDS = 2.0  # after which no further target is looked at, and for one answer of a user's function
BORROWED = 2  # answers to other problems that a verifier should not take for right
COSTLY = "judge"  # type of a verifier whose verdicts cost money
WHOLE_TEXT = "compute_score_whole_text"
DRAWN = BEFORE, FIRST  # moments: answers of the base model are what a first step samples
UNKNOWN = 0.5, ""  # neither right nor wrong

Score = Callable[[Mapping[str, Any], str], tuple[float, str]]  # from a row and a response: the score, and why it failed


def examine(
    config: DictConfig, targets: Path, model: Path, drawn: Mapping[str, Sequence[tuple[str, int]]] | None = None
) -> list[Finding]:
    """Return the causes that can be seen in some targets of a run, before it starts.

    Args:
        config: The composed configuration of the run.
        targets: the file of its training set.
        model: the folder of its base model.
        drawn: The base model's responses with their tokens, by problem; without them the verifier is tried on answers
            to other problems.
    """
    rows, verifiers = sample_rows(targets), read_verifiers(targets)
    lengths = load_lengths(model, chat_template(config))
    samples: list[Rollout] = []
    ended = time.monotonic() + SECONDS
    with _scores(config, verifiers) as score:
        for number, row in enumerate(rows):
            if number and time.monotonic() > ended:
                break
            samples.append(_sample(row, final_turn(row["target"]), lengths, score, whole=True))
            others = [rows[(number + 1 + k) % len(rows)] for k in range(min(BORROWED, len(rows) - 1))]
            borrowed = [(final_turn(other["target"]), 0) for other in others]
            answers = borrowed if drawn is None else drawn.get(row["prompt"][-1]["content"], ())
            samples += [_sample(row, text, lengths, score, tokens=tokens) for text, tokens in answers]
    moments = (BEFORE,) if drawn is None else DRAWN
    return explain(RunRecord(_as_it_runs(config, verifiers, model), samples={0: samples}), *moments)


def warn_before(config: DictConfig, targets: Path, model: Path, warn: Warn) -> None:
    """Warn of the causes that can be seen in the targets of a run that is about to start."""
    if config.objective == "rl":
        with without_harm(0, warn):
            for finding in examine(config, targets, model):
                warn(0, finding.line())


def report(file: Path, samples: Path | None) -> int:
    """Test the training of the request in ``file``, and print a line for each test; the exit status: 1 if one fails.

    Args:
        samples: answers of the base model that `evaluate generate` drew.

    Raises:
        InputError: the training could not start.
    """
    request = TrainingRequest.read(file).complete()
    config = compose_run(request.recipe, request.hardware, request.config_overrides(), run=request.out)
    rows = sample_rows(request.targets.path)
    drawn = None if samples is None else _drawn(samples, rows)
    faults = {one.cause.name: one for one in examine(config, request.targets.path, request.model.path, drawn)}
    answers = " with answers of the base model" if drawn else ""
    sys.stdout.write(f"{len(rows)} prompts of {request.targets.path.name}{answers}\n")
    for cause in seen(*((BEFORE,) if drawn is None else DRAWN)):
        line = f"FAIL  {faults[cause.name].line()}" if cause.name in faults else f"ok    {cause.name}: not seen"
        sys.stdout.write(f"{line}\n")
    return int(bool(faults))


def _drawn(samples: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """Return the responses in a file of `SAMPLE` and their tokens, by problem."""
    drawn: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for one in read_table(samples, SAMPLE, "give a file of `luffy evaluate generate`").to_pylist():
        drawn[rows[int(one["id"])]["prompt"][-1]["content"]].append((one["response"], one["tokens"]))
    return dict(drawn)


def _sample(
    row: Mapping[str, Any], text: str, lengths: Lengths, score: Score, *, whole: bool = False, tokens: int = 0
) -> Rollout:
    """Return ``text`` as a response to the row's prompt, drawn with ``tokens`` or else as a target of the row.

    With ``whole`` it is the off-policy sample that it is in a run.
    """
    prompt = lengths.prompt_text(row["prompt"])
    response = text if tokens else render_target(prompt, text, lengths.chat.eos_token)
    (counted,) = [tokens] if tokens else lengths.count([response])
    reward, error = score(row, response)
    gold = str(row["reward_model"]["ground_truth"])
    return Rollout(prompt, response, gold, reward, counted if whole else 0, counted, error)


@contextmanager
def _scores(config: DictConfig, verifiers: Mapping[str, VerifierSpec]) -> Iterator[Score]:
    """Yield the reward of the run; its processes end with the block."""
    section: Any = OmegaConf.to_container(config.reward.custom_reward_function)
    with ExitStack() as stack:
        if section["path"] != SHIPPED:
            yield _of_function(section, stack)
            return
        rule = parse_spec("math_whole_text", "rule") if section["name"] == WHOLE_TEXT else MATH
        specs = {name: rule if spec == MATH else spec for name, spec in verifiers.items()}
        opened = {spec: stack.enter_context(open_verifier(spec, workers=1)) for spec in {*specs.values()}}

        def score(row: Mapping[str, Any], response: str) -> tuple[float, str]:
            spec, info = specs[row["data_source"]], row["extra_info"]
            if spec.type == COSTLY:
                return UNKNOWN
            fields = row_fields(row["data_source"], row["prompt"][-1]["content"], info.get("fields"))
            thinking = tools_of(config) is None or OPEN_THOUGHTS in response
            grade = opened[spec].verify(response, row["reward_model"]["ground_truth"], fields=fields, thinking=thinking)
            return grade.score, grade.reason if grade.verdict is Verdict.ERROR and spec != MATH else ""

        yield score


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call in a thread of its own, for which no exit of the process waits."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return future


def _of_function(section: Mapping[str, Any], stack: ExitStack) -> Score:
    """Return the score by a user's function, called in one event loop as in verl, which ends with ``stack``.

    A function that once took longer than `SECONDS` is not asked again.
    """
    silent = False
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonThreads())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    stack.callback(loop.call_soon_threadsafe, loop.stop)

    def score(row: Mapping[str, Any], response: str) -> tuple[float, str]:
        nonlocal silent
        if silent:
            return UNKNOWN
        sample = {name: row[name] for name in ("data_source", "extra_info")}
        sample |= {"solution_str": response, "ground_truth": row["reward_model"]["ground_truth"]}
        answer = asyncio.run_coroutine_threadsafe(compute_score(function=section, **sample), loop)
        try:
            scored = answer.result(SECONDS)
        except TimeoutError:
            silent = answer.cancel()
            return UNKNOWN
        except RewardError as error:
            return 0.0, str(error)
        return float(scored["score"] if isinstance(scored, Mapping) else scored), ""

    return score


def _as_it_runs(config: DictConfig, verifiers: Mapping[str, VerifierSpec], model: Path) -> dict[str, Any]:
    """Return the configuration as the run has it, with the verifiers of its sources and its base model."""
    resolved: Any = OmegaConf.to_container(config)
    resolved["actor_rollout_ref"]["model"]["path"] = str(model)
    section = resolved["reward"]["custom_reward_function"]
    if section["path"] == SHIPPED:
        specs = {name: spec.to_json() for name, spec in verifiers.items()}
        section["reward_kwargs"] = {VERIFIERS: json.dumps(specs)}
    return resolved
