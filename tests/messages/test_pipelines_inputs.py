"""Bad inputs of `pipelines`: profiles, variables, selections, the registry. To add one, add a row."""

import pytest
from rows import Row, name

from core import PROJECT

LUFFY = "pipelines.cli.luffy"
ANSWERS = {"r.jsonl": '{"response": "1", "gold": "1"}\n'}
RUN = f"{LUFFY} run"
TRAINING = f"LUFFY__INTERPRETER__PYTHON={PROJECT}/.venv-train/bin/python"
RECORDED = PROJECT / "research" / "runs" / "comparison" / "sft-0.zip"

ROWS: list[Row] = [
    (f"{RUN} --select key:training/checkpoints", {}, "not in the job everything: training/checkpoints;"),
    (f"{LUFFY} explain nothing", {}, "nothing: no config.yaml in it, so it is not a run: give the folder"),
    (f"{LUFFY} explain suite.parquet", {}, "suite.parquet: not a recorded run"),
    (f"{LUFFY} explain nothing --page {{here}}", {}, "{here} is a folder; expected the name of a file"),
    (f"{LUFFY} explain nothing --page suite.parquet/x.html", {}, "suite.parquet is a file; expected a folder"),
    (f"{LUFFY} explain {RECORDED} --page {RECORDED}", {}, "the command would overwrite this file"),
    (f"{LUFFY} doctor --set training.seed=1", {}, "--set: it changes settings of a profile: name the profile"),
    (f"{LUFFY} doctor --profile nothing", {}, "nothing"),
    (f"{RUN} --select nope", {}, "--select 'nope'"),
    (f"{RUN} --rounds 2", {}, "--rounds: they ask the teacher of the section generate within a budget per round"),
    (f"{RUN} --rounds 2 --select x", {}, "--rounds and --select: give one of them"),
    (f"{RUN} --select ''", {}, "--select ''"),
    (f"{RUN} --set training.seed", {}, "expected SECTION.KEY=VALUE"),
    (f"{RUN} --set seed=1", {}, "expected SECTION.KEY=VALUE"),
    (
        f"{RUN} --set training.samples=1",
        {},
        "is not a setting; did you mean generate.samples or difficulty.samples or",
    ),
    (f"{RUN} --profile ''", {}, "error: --profile '': expected the name of a profile"),
    (f"{RUN} --set 'interpreter.slurm={{mem: }}'", {}, "--set interpreter.slurm: 'mem' is null; give it a value"),
    (f"{RUN} --set 'catalog.owners={{targets: [a@b.c]}}'", {}, "'a@b.c': expected an e-mail address, or a team"),
    (f"{RUN} --set 'training.seed=['", {}, "error: --set training.seed: not YAML"),
    *(
        (f"{RUN} --set 'targets.filters=[filters.py:{name}]'", {"filters.py": code}, message)
        for name, code, message in (
            ("no_thirten", "def no_thirteen(trace): ...", "no such function in it; did you mean no_thirteen?"),
            ("other", "import re", "filters.py:other: there is no such function in it"),
        )
    ),
    (
        f"{RUN} --set training.hardware=tpu",
        {},
        "training.hardware: no hardware 'tpu'; did you mean gpu? expected one of",
    ),
    (f"{RUN} --set training.config.paths.run=/x", {}, "--set training.config.paths.run says where a run writes"),
    (f"{RUN} --set targets.ledger_drop=[known]", {}, "--set targets.ledger_drop would change nothing: there is no led"),
    (f"{RUN} --set schedule.retrain=nope", {}, "schedule.retrain: 'nope'"),
    (f"{RUN} --set schedule.timezone=Mars/X", {}, "schedule.timezone: 'Mars/X'"),
    (f"{RUN} --set evaluation.template=nothing", {}, "evaluation.template: there is no 'nothing'"),
    (f"{RUN} --set targets.mapping=nothing", {}, "targets.mapping"),
    (f"{RUN} --set evaluation.samples=0", {}, "evaluation.samples"),
    (
        f"{RUN} --set evaluation.samples=until_decided --set evaluation.temperature=0",
        {},
        "until_decided draws more samples of a problem, which are equal at temperature 0",
    ),
    (f"{RUN} --set suite.name=nothing", {}, "no suite 'nothing'"),
    (f"{RUN} --set 'suite.only=[nothing]'", {}, "suite.only: nothing"),
    (f"{RUN} --set suite.name={{here}}/s.yaml", {"s.yaml": "["}, "s.yaml: not YAML"),
    (f"{RUN} --set checks.suite=nothing.yaml", {}, "nothing.yaml"),
    (f"{RUN} --set checks.suite={{here}}/s.yaml", {"s.yaml": "- {name: x}"}, "s.yaml"),
    (
        f"{RUN} --set checks.suite={{here}}/s.yaml",
        {
            "s.yaml": "{name: x, checks: [{name: every_trace_accounted_for, severity: error, description: x, "
            "type: expect_x}]}"
        },
        "every_trace_accounted_for is a check that every suite has",
    ),
    (
        f"LUFFY_TRAINING_SEED=1 {RUN}",
        {},
        "LUFFY_TRAINING_SEED: expected LUFFY__SECTION__KEY; did you mean LUFFY__TRAINING_",
    ),
    (f"LUFFY_STORAGE_ROOT=x {LUFFY} champion", {}, "did you mean LUFFY__STORAGE__ROOT?"),
    (
        f"LUFFY__INTERPRETER__PYTHON=/bin/true {RUN}",
        {},
        "error: /bin/true: it does not answer as a Python does; expected",
    ),
    (f"LUFFY__X=1 {RUN}", {}, "variable LUFFY__X: expected LUFFY__SECTION__KEY"),
    (f"DAGSTER_HOME={{here}}/traces.jsonl {RUN}", {}, "DAGSTER_HOME"),
    (
        f"{RUN} --profile {{here}}/p.yaml",
        {"p.yaml": "base: embeded"},
        "p.yaml: base: no profile 'embeded'; did you mean embedded? expected one of ",
    ),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "base: [embedded]"}, "base: expected the name of a profile"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "1: {}"}, "p.yaml"),
    *(
        (f"{LUFFY} verify --in r.jsonl --verifier '{verifier}'", ANSWERS, message)
        for verifier, message in (
            ("chioce", "--verifier: no verifier 'chioce'; did you mean choice?"),
            ("[math]", "--verifier: expected the name of a verifier, such as math"),
            ("{type: number, rel_tol: much}", "--verifier: verifier number: rel_tol"),
            ("{type: regex, pattern: (}", "--verifier: verifier regex: pattern"),
            ("{type: json, json_schema: {type: 7}}", "--verifier: verifier json: json_schema"),
            ("{type: all_of, verifiers: [math, exat]}", "no verifier 'exat'; did you mean exact?"),
            (
                "{type: code, sandbox: docker}",
                "sandbox: expected bubblewrap, the url of a SandboxFusion server",
            ),
            ("{type: python, path: mine.py}", "path: expected file.py:function or package.module:function"),
            ("{type: python, path: none.py:f}", "path: no file {here}/none.py"),
            ("{type: python, path: json:f}", "json has no function f"),
            ("{type: judge, model: m, url: http://127.0.0.1:9/v1, cache: c}", "127.0.0.1:9/v1 cannot be reached"),
        )
    ),
    (
        f"{LUFFY} verify --in r.jsonl --verifier math",
        {"r.jsonl": '{"q": "1", "a": "2"}'},
        "it has q, a: name its columns",
    ),
    (
        f"{LUFFY} verify --in r.jsonl --verifier math --mapping '{{problem: q, answer: a, response: r}}'",
        {"r.jsonl": '{"q": "1", "a": "2"}'},
        "no column r: it has q, a",
    ),
    (
        f"{LUFFY} verify --in r.csv --verifier math",
        {"r.csv": "q,a\n1,2\n"},
        "the columns fit no ready mapping: it has q, a",
    ),
    (
        f"{LUFFY} new r.csv --mapping '{{problem: q, answer: a}}'",
        {"r.csv": "q,a\n1,2\n"},
        "--mapping: expected a column of the response, or of reasoning",
    ),
    (f"{LUFFY} champion promote ''", {}, "'' is neither a run's folder nor the digest of a policy"),
    (f"{LUFFY} champion promote abcd", {}, "'abcd' is neither a run's folder nor the digest of a policy"),
    (
        f"{LUFFY} champion --profile small promote x",
        {},
        "--profile: leave out what stands before",
    ),
    (f"{LUFFY} champion promote /etc", {}, "/etc"),
    (f"{LUFFY} champion rollback", {}, "nothing to roll back"),
    (f"{LUFFY} champion", {"storage/registry/champion.json": b"\xff"}, "champion.json"),
    (f"{LUFFY} champion", {"storage/registry/decisions/a.json": "{}"}, "a.json: not a decision"),
    (
        f"{LUFFY} champion promote abcd",
        {"storage/training/policy/x/policy/lineage.json": "{"},
        "lineage.json",
    ),
    (
        f"LUFFY__STORAGE__ROOT=traces.jsonl {LUFFY} champion",
        {},
        "storage.root: {here}/traces.jsonl is a file; expected",
    ),
    (f"LUFFY__STORAGE__ROOT=s3://x {LUFFY} champion", {}, "storage.root: expected a folder"),
    (f"{LUFFY} ui --host nowhere.invalid", {}, "error: --host nowhere.invalid: "),
    (f"{LUFFY} demo --set training.seed=x", {}, "--set training.seed: Input should be"),
    ("research remake nothing.zip", {}, "nothing.zip: no such file"),
    ("research remake traces.jsonl", {}, "traces.jsonl: not a recorded run"),
    (
        "research words --model nothing",
        {},
        "no word_problems_train.jsonl there; docs/results/words.md says where to get it",
    ),
    (f"{LUFFY} doctor --hardware gpuu", {}, "error: no hardware 'gpuu'; did you mean gpu? expected one of cpu, gpu"),
    (f"{LUFFY} targets --nothing", {}, "No such option: --nothing; see luffy targets --help"),
    (f"{LUFFY} targets browse model", {}, "missing --out; see luffy targets browse --help"),
    (f"{LUFFY} train --print-config", {}, "no training interpreter at /no/python"),
    (f"{LUFFY} evaluate suite", {}, "no training interpreter at /no/python"),
    *(
        (f"{TRAINING} {RUN} --set training.config.{override}", {}, f"error: training.config: {message}")
        for override, message in (
            ("nosuch.key=1", "unknown key 'nosuch.key': luffy train --print-config prints"),
            ("trainer.save_freq=often", "trainer.save_freq: got 'often', expected a whole number from 1"),
        )
    ),
    (
        f"{TRAINING} {RUN} --profile p.yaml",
        {"p.yaml": "base: embedded\ntraining: {config: {data: {shufle: true}}}"},
        "error: training.config: unknown key 'data.shufle': did you mean 'data.shuffle'?",
    ),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)


@pytest.mark.parametrize("row", [ROWS[1], (f"{RUN} --set training.config=3", {}, "training.config")], ids=name)
def test_the_process_that_a_user_starts_ends_in_the_same_way(row, refuse_process):
    refuse_process(row)
