"""``python -m evaluation``: From benchmark problems to a scorecard, without Dagster.

The usual order is suite, generate, grade, report; `compare` does the first three for several models at once. Every
command has --help.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.backends import BACKENDS
from core.cli import COUNT, SECONDS, SEED, Parser, exit_status, number
from core.errors import InputError
from evaluation import commands

SLURM = {"time": 1440}  # minutes, as for a training
SECOND_GRADERS = {
    "whole-text": "math-verify on everything after the first </think>, the rule of LUFFY's published evaluation",
    "prime": "the sympy grader of PRIME and PRM800K on the extracted answer, from verl (training interpreter)",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""

    def work() -> None:
        options = parser().parse_args(arguments)
        options.arguments = sys.argv[1:] if arguments is None else arguments
        options.command(options)

    return exit_status(work)


def parser() -> Parser:
    """The command line; the docstring of each of `commands` is its help."""
    result = Parser(prog="python -m evaluation", description=(__doc__ or "").split(": ", 1)[1])
    subparsers = result.add_subparsers(required=True, metavar="COMMAND")

    def add(command: Callable[[argparse.Namespace], None], *parents: Parser) -> Callable[..., object]:
        text = (command.__doc__ or "").rstrip(".")
        name = command.__name__.replace("_", "-")
        added = subparsers.add_parser(name, parents=parents, help=text, description=f"{text}.")
        added.set_defaults(command=command)
        return added.add_argument

    problems, seed, sampling, backend = _problem_options(), _options(), _sampling_options(), _backend_options()
    grader = _grader_options()
    grading = _grading_options(grader)
    seed.add_argument("--seed", type=SEED, default=0, help="of samples of problems and of responses (default 0)")

    option = add(commands.suite, problems, seed)
    option("--system-prompt", metavar="TEXT", help="system message before every problem")
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the suite file to write")

    option = add(commands.generate, seed, sampling, backend)
    option("--model", required=True, metavar="MODEL", help="Hugging Face folder, hub id[@revision], or "
           "MODEL@URL of an OpenAI-compatible endpoint")  # fmt: skip
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    option("--out", type=Path, required=True, metavar="DIR", help="folder for <benchmark>.parquet")
    option("--checkpoint", metavar="DIGEST", help="names the model (default: from its lineage.json or its files)")

    option = add(commands.traces, seed, sampling, backend, grader)
    option("--teacher", required=True, metavar="MODEL", help="Hugging Face folder, hub id[@revision], or MODEL@URL of "
           "an OpenAI-compatible endpoint, whose key is in OPENAI_API_KEY")  # fmt: skip
    option("--problems", type=Path, required=True, metavar="FILE", help="parquet, JSON or JSON lines")
    option("--problem-column", default="problem", metavar="NAME", help="its problems (default %(default)s)")
    option("--answer-column", default="answer", metavar="NAME", help="its gold answers (default %(default)s)")
    option("--system-prompt", metavar="TEXT", help="system message before every problem")
    option("--log-probs", action=argparse.BooleanOptionalAction, default=True, help="keep the log-probabilities of a "
           "teacher that is a model (default)")  # fmt: skip
    option("--concurrency", type=COUNT, help="requests at once to an endpoint (default 64)")
    option("--budget-tokens", type=COUNT, metavar="N", help="most tokens of prompts and answers together")
    option("--budget-money", type=number(float, 0, above=0), metavar="X", help="most that the tokens may cost")
    for name, what in (("input", "prompts"), ("output", "answers")):
        option(f"--{name}-price", type=number(float, 0), default=0.0, metavar="X",
               help=f"of a million tokens of {what} (default 0)")  # fmt: skip
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the traces, a source of targets")

    option = add(commands.difficulty, grader)
    option("--thinking", action=argparse.BooleanOptionalAction, default=True, help="an answer counts only after "
           "</think> (default)")  # fmt: skip
    option("--samples", type=Path, required=True, metavar="FILE.parquet", help="file written by `traces`")
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the pass rate of each problem")

    option = add(commands.grade, grading)
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--samples", type=Path, required=True, metavar="DIR", help="folder written by `generate`")
    option("--out", type=Path, required=True, metavar="DIR", help="folder for <benchmark>.parquet with verdicts")

    option = add(commands.disagreements)
    option("results", type=Path, metavar="DIR", help="folder written by `grade`")
    graders = "; ".join(map(": ".join, SECOND_GRADERS.items()))
    option("--second", choices=SECOND_GRADERS, default="whole-text", help=f"{graders} (default %(default)s)")
    option("--limit-s", type=SECONDS, default=5.0, help="seconds per sample (default %(default)s)")
    option("--out", type=Path, metavar="FILE.parquet", help="also write all of them, with prompt and response")

    option = add(commands.browse)
    option("results", type=Path, metavar="DIR", help="folder written by `grade`")
    option("--out", type=Path, required=True, metavar="FILE.html", help="the page to write")

    option = add(commands.inspect)
    option("results", type=Path, metavar="DIR", help="folder written by `grade`")
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--out", type=Path, required=True, metavar="DIR", help="folder for one .eval file per benchmark")

    option = add(commands.lm_eval)
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--samples", type=Path, metavar="DIR", help="folder written by `generate` or `grade`, whose rendered "
           "prompts and sampling the tasks take (default: the suite's messages)")  # fmt: skip
    _thinking_option(option)
    option("--out", type=Path, required=True, metavar="DIR", help="folder of the tasks")

    option = add(commands.compare, problems, seed, sampling, grading)
    option("models", nargs="+", metavar="MODEL", help="model folder, hub id[@revision], MODEL@URL of an OpenAI-"
           "compatible endpoint, or folder written by `grade`; the others are compared with the first")  # fmt: skip
    option("--pass-at", type=COUNT, metavar="K", help="also report pass@K; every problem needs K stored samples")
    option("--out", type=Path, metavar="DIR", help="keep the graded results of each model below this folder")

    option = add(commands.leaderboard)
    option("--results", type=Path, default=Path("var/storage/graded"), metavar="DIR",
           help="folder that is searched for graded results (default %(default)s)")  # fmt: skip
    option("--markdown", type=Path, metavar="FILE.md", help="also write the tables to this file")

    option = add(commands.report)
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    for role in ("base", "policy"):
        option(f"--{role}", type=Path, required=True, metavar="DIR", help=f"results of the {role}, from `grade`")
    option("--champion", type=Path, metavar="DIR", help="results of the champion, to compare with")
    option("--targets", type=Path, metavar="FILE.parquet", help="training targets that are searched for problems of "
           "the suite (default: the file that --lineage names)")  # fmt: skip
    option("--lineage", type=Path, metavar="JSON", help="the policy's lineage.json")
    option("--metrics", type=Path, metavar="JSONL", help="the training run's metrics.jsonl")
    option(
        "--filter-counts", type=Path, metavar="JSON", help="how many rows each preparation step left: [[step, rows], …]"
    )
    option("--out", type=Path, required=True, metavar="FILE.html", help="the page to write")
    option("--markdown", type=Path, metavar="FILE.md", help="also write a summary to this file")
    return result


def _options() -> Parser:
    return Parser(add_help=False)


def _problem_options() -> Parser:
    options = _options()
    options.add_argument("--suite", default="embedded", help="name of a suite in evaluation/benchmarks/suites, "
                         "a YAML file, or (compare) a file written by `suite` (default %(default)s)")  # fmt: skip
    options.add_argument("--roots", nargs="*", type=Path, default=[], metavar="DIR", help="folders of benchmark files")
    options.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    options.add_argument("--limit", type=COUNT, help="problems per benchmark, a seeded sample (default: all)")
    return options


def _sampling_options() -> Parser:
    from evaluation.generation.generate import CACHE
    from evaluation.generation.templates import TRAINING, template_names

    options = _options()
    options.add_argument(
        "--samples", type=COUNT, help="per problem (default: the k of each benchmark's avg@k; 1 trace)"
    )
    options.add_argument("--temperature", type=number(float, 0), default=0.6, help="0 is greedy (default %(default)s)")
    options.add_argument(
        "--top-p", type=number(float, most=1, above=0), default=0.95, help="nucleus sampling (default %(default)s)"
    )
    options.add_argument("--max-tokens", type=COUNT, default=8192, help="per response (default %(default)s)")
    options.add_argument("--template", choices=template_names(), default=TRAINING, help="prompt template; `training` "
                         "means the checkpoint's own, or else the chat template (default %(default)s)")  # fmt: skip
    options.add_argument("--chat-template-kwargs", metavar="YAML", default="{}", help="arguments of the chat template, "
                         "beside those of the checkpoint's training: {enable_thinking: false}")  # fmt: skip
    options.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="of samples (default %(default)s)")
    options.add_argument("--replicas", type=COUNT, help="engines with GPUs of their own (default: as many as fit)")
    options.add_argument("--tensor-parallel", default="auto", metavar="GPUS", type=_gpus,
                         help="GPUs per engine (default %(default)s: as few as the weights need)")  # fmt: skip
    options.add_argument("--endpoint", metavar="YAML", help="how requests to MODEL@URL differ: {max_tokens_key: "
                         "max_completion_tokens, leave_out: [seed, temperature, top_p], extra_body: {…}}")  # fmt: skip
    options.add_argument("--trust-remote-code", action="store_true", help="run code that the model folder contains")
    return options


def _gpus(text: str) -> str:
    if text != "auto" and not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: expected auto, or a number of GPUs")
    return text


def _mapping(text: str) -> dict[str, Any]:
    from core.text.parse import parse_yaml

    try:
        value = parse_yaml(text, "--slurm")
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a mapping, such as {{partition: gpu, time: 600}}")
    return SLURM | value


def _backend_options() -> Parser:
    options = _options()
    options.add_argument("--backend", choices=BACKENDS, default="local", help="where it runs: here, as a job of the "
                         "Ray cluster at --ray-address, or as a job of Slurm (default %(default)s)")  # fmt: skip
    options.add_argument("--ray-address", metavar="URL", help="dashboard of the Ray cluster, http://HOST:8265")
    options.add_argument("--slurm", type=_mapping, default={**SLURM}, metavar="YAML", help="parameters of sbatch as "
                         "submitit names them (default %(default)s)")  # fmt: skip
    return options


def _grader_options() -> Parser:
    options = _options()
    options.add_argument(
        "--workers", type=COUNT, default=2, help="processes that compare answers (default %(default)s)"
    )
    options.add_argument("--limit-s", type=SECONDS, default=5.0, help="seconds per comparison (default %(default)s)")
    return options


def _grading_options(grader: Parser) -> Parser:
    options = Parser(add_help=False, parents=[grader])
    _thinking_option(options.add_argument)
    options.add_argument("--truncated", choices=("zero", "by_text"), default="zero", help="score of a sample that "
                         "was cut at the token limit: zero, or as its text says (default %(default)s)")  # fmt: skip
    return options


def _thinking_option(option: Callable[..., object]) -> None:
    option("--thinking", action=argparse.BooleanOptionalAction, help="an answer counts only after </think> (default: "
           "as the prompt template says)")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
