"""Bad inputs of `pipelines`: profiles, variables, selections, the registry. To add one, add a row."""

import pytest
from rows import DEEP, Row, name

from core import PROJECT

LUFFY = "pipelines.cli.luffy"
ANSWERS = {"r.jsonl": '{"response": "1", "gold": "1"}\n'}
RUN = f"{LUFFY} run"
TRAINING = f"LUFFY__INTERPRETER__PYTHON={PROJECT}/.venv-train/bin/python"
RECORDED = PROJECT / "research" / "runs" / "comparison" / "sft-0.zip"

ROWS: list[Row] = [
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
    (f"{RUN} --select policy", {}, "no asset has the key policy; did you mean evals/policy or training/policy?"),
    (f"{RUN} --select 'key:((('", {}, "--select 'key:((('"),
    (f"{RUN} --select group:nothing", {}, "no asset has the group nothing"),
    (f"{RUN} --select ''", {}, "--select ''"),
    (
        f"{RUN} --max-concurrent 0",
        {},
        "--max-concurrent: Input should be greater than or equal to 1 (got '0'); see luffy run --help",
    ),
    (f"{RUN} --nothing", {}, "No such option: --nothing; see luffy run --help"),
    (f"{RUN} --set training.seed", {}, "expected SECTION.KEY=VALUE"),
    (f"{RUN} --set seed=1", {}, "expected SECTION.KEY=VALUE"),
    (f"{RUN} --set training.seed=x", {}, "error: --set training.seed: Input should be a valid integer"),
    (f"{RUN} --set training.seeed=1", {}, "error: --set training.seeed is not a setting; did you mean seed?"),
    (
        f"{RUN} --set training.samples=1",
        {},
        "is not a setting; did you mean generate.samples or difficulty.samples or",
    ),
    (f"{RUN} --profile ''", {}, "error: --profile '': expected the name of a profile"),
    (f"{RUN} --set 'interpreter.slurm={{mem: }}'", {}, "--set interpreter.slurm: 'mem' is null; give it a value"),
    (f"{RUN} --set 'model.rope_scaling={{factor: }}'", {}, "--set model.rope_scaling: 'factor' is null; give it"),
    (f"{RUN} --set 'catalog.owners={{targets: [a@b.c]}}'", {}, "'a@b.c': expected an e-mail address, or a team"),
    (
        f"{RUN} --set trainin.seed=1",
        {},
        "--set trainin.seed; did you mean training? expected SECTION.KEY=VALUE",
    ),
    (f"{RUN} --set foo.bar=1", {}, "error: --set foo.bar: expected SECTION.KEY=VALUE, with a section"),
    (f"{RUN} --set 'training.seed=['", {}, "error: --set training.seed: not YAML"),
    (
        f"LUFFY__TRAINING__SEED=x {RUN} --set split.max_rows=1",
        {},
        "error: variable LUFFY__TRAINING__SEED: training.seed",
    ),
    (
        f"{RUN} --set training.seed=1 --profile p.yaml",
        {"p.yaml": "targets: {source: [traces.jsonl], min_rows: x}"},
        "error: profile {here}/p.yaml: targets.min_rows",
    ),
    (
        f"{RUN} --profile p.yaml",
        {"p.yaml": "targets: {source: [{path: traces.jsonl, licens: y}]}"},
        "error: profile {here}/p.yaml: targets.source",
    ),
    *(
        (f"{RUN} --set 'targets.filters=[filters.py:{name}]'", {"filters.py": code}, message)
        for name, code, message in (
            ("no_thirten", "def no_thirteen(trace): ...", "no such function in it; did you mean no_thirteen?"),
            ("other", "import re", "filters.py:other: there is no such function in it"),
        )
    ),
    (f"{RUN} --set training.recipe=nothing", {}, "training.recipe: no recipe 'nothing': expected one of"),
    (
        f"{RUN} --set training.hardware=tpu",
        {},
        "training.hardware: no hardware 'tpu'; did you mean gpu? expected one of",
    ),
    (f"{RUN} --set training.recipe=../hardware/cpu", {}, "training.recipe: no recipe '../hardware/cpu'"),
    (f"{RUN} --set training.config.paths.run=/x", {}, "--set training.config.paths.run says where a run writes"),
    (f"{RUN} --set training.config=3", {}, "--set training.config: Input should be a mapping"),
    (f"{RUN} --set targets.ledger_drop=[known]", {}, "--set targets.ledger_drop would change nothing: there is no led"),
    (f"{RUN} --set schedule.retrain=nope", {}, "schedule.retrain: 'nope'"),
    (f"{RUN} --set 'schedule.retrain=61 * * * *'", {}, "schedule.retrain: '61 * * * *'"),
    (f"{RUN} --set schedule.timezone=Mars/X", {}, "schedule.timezone: 'Mars/X'"),
    (f"{RUN} --set schedule.timezone=../../etc/passwd", {}, "schedule.timezone"),
    (f"{RUN} --set evaluation.temperature=.nan", {}, "evaluation.temperature"),
    (f"{RUN} --set evaluation.grade_limit_s=.nan", {}, "evaluation.grade_limit_s"),
    (f"{RUN} --set evaluation.grade_limit_s=.inf", {}, "evaluation.grade_limit_s"),
    (f"{RUN} --set evaluation.template=nothing", {}, "evaluation.template: there is no 'nothing'"),
    (f"{RUN} --set evaluation.grade_workers=0", {}, "evaluation.grade_workers"),
    (f"{RUN} --set interpreter.grace_seconds=.nan", {}, "interpreter.grace_seconds"),
    (f"{RUN} --set interpreter.python={{here}}", {}, "no training interpreter at {here}"),
    (f"{RUN} --set storage.root=s3://bucket/x", {}, "storage.root: expected a folder"),
    (f"{RUN} --set targets.mapping=nothing", {}, "targets.mapping"),
    (f"{RUN} --set 'targets.source=[{{path: x, licens: y}}]'", {}, "did you mean license?"),
    (f"{RUN} --set 'targets.source=[]'", {}, "targets.source"),
    (f"{RUN} --set promotion.max_ood_drop=2", {}, "promotion.max_ood_drop"),
    (f"{RUN} --set promotion.error_rate=0", {}, "promotion.error_rate"),
    (f"{RUN} --set promotion.rule=error_rate", {}, "promotion.rule"),
    (f"{RUN} --set evaluation.samples=many", {}, "evaluation.samples"),
    (f"{RUN} --set evaluation.samples=0", {}, "evaluation.samples"),
    (
        f"{RUN} --set evaluation.samples=until_decided --set evaluation.temperature=0",
        {},
        "until_decided draws more samples of a problem, which are equal at temperature 0",
    ),
    (f"{RUN} --set retention.keep_days=-1", {}, "retention.keep_days"),
    (f"{RUN} --set retention.keep_days=.inf", {}, "retention.keep_days"),
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
    (f"{RUN} --set 'notify.url_variables=x'", {}, "notify.url_variables"),
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
    (f"LUFFY__INTERPRETER__PYTHON=/bin/false {RUN}", {}, "error: /bin/false: it does not answer as a Python does; "),
    (f"LUFFY_GENERATE_SAMPLES=2 {LUFFY} champion", {}, "did you mean LUFFY__GENERATE__SAMPLES?"),
    (f"LUFFY__X=1 {RUN}", {}, "variable LUFFY__X: expected LUFFY__SECTION__KEY"),
    (f"LUFFY__TRAINING=1 {RUN}", {}, "variable LUFFY__TRAINING"),
    (f"LUFFY__TRAINING__SEED__X=1 {RUN}", {}, "LUFFY__TRAINING__SEED__X"),
    (f"LUFFY__TRAINING__=1 {RUN}", {}, "LUFFY__TRAINING__"),
    (
        f"LUFFY_TRAINING__SEED=1 {RUN}",
        {},
        "LUFFY_TRAINING__SEED: expected LUFFY__SECTION__KEY; did you mean LUFFY__TRAINING_",
    ),
    (
        f"LUFFY_PROFILE=nothing {RUN}",
        {},
        "error: variable LUFFY_PROFILE: no profile 'nothing': expected one of choice, ",
    ),
    (f"{RUN} --profile smal", {}, "error: --profile: no profile 'smal'; did you mean small? expected one of choice, "),
    (
        f"{RUN} --profile a/p.yaml",
        {"a/p.yaml": "base: q.yaml", "q.yaml": "base: embedded"},
        "error: profile {here}/a/p.yaml: base: no profile 'q.yaml': expected one of",
    ),
    (f"DAGSTER_HOME={{here}}/traces.jsonl {RUN}", {}, "DAGSTER_HOME"),
    (f"{RUN} --profile {{here}}", {}, "profile"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: ["}, "p.yaml: not YAML"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "- a"}, "expected a mapping"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "trainig: {}"}, "trainig is not a setting; did you mean training?"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: 3"}, "p.yaml: training"),
    (
        f"{RUN} --profile {{here}}/p.yaml",
        {"p.yaml": "training: {rollouts: sync}"},
        "training.rollouts is not a setting",
    ),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: {seed: x}"}, "p.yaml: training.seed"),
    (
        f"{RUN} --profile {{here}}/p.yaml",
        {"p.yaml": "training:"},
        "p.yaml: training: Input should be a mapping of keys",
    ),
    (
        f"{RUN} --profile {{here}}/p.yaml",
        {"p.yaml": "suite: {benchmarks: [{name: a, group: evals, title: A, sources: [{file: a, fields: [[]]}]}]}"},
        "p.yaml: suite.benchmarks.0.sources.0.fields: Input should be a mapping of keys to values",
    ),
    (
        f"{RUN} --profile {{here}}/p.yaml",
        {"p.yaml": "base: embeded"},
        "p.yaml: base: no profile 'embeded'; did you mean embedded? expected one of ",
    ),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "base: [embedded]"}, "base: expected the name of a profile"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "base: embedded\ntraining:"}, "p.yaml: training"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "1: {}"}, "p.yaml"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": DEEP}, "p.yaml: nested too deep"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": b"\x80abc"}, "p.yaml: not YAML"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "a: 1\nb: !!python/name:os.system"}, "p.yaml: not YAML"),
    (f"{RUN} --profile nothing.yaml", {}, "no profile 'nothing.yaml'"),
    *(
        (f"{LUFFY} verify --in r.jsonl --verifier '{verifier}'", ANSWERS | {"bad.py": "raise ValueError(7)"}, message)
        for verifier, message in (
            ("chioce", "--verifier: no verifier 'chioce'; did you mean choice?"),
            ("[math]", "--verifier: expected the name of a verifier, such as math"),
            ("{", "--verifier: not YAML"),
            ("{type: choice, options: 99}", "--verifier: verifier choice: options"),
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
            ("{type: python, path: bad.py:f}", "bad.py:f: its import raised ValueError: 7"),
            ("{type: python, path: json:f}", "json has no function f"),
            ("{type: judge, model: m, url: http://127.0.0.1:9/v1, cache: c}", "127.0.0.1:9/v1 cannot be reached"),
        )
    ),
    (f"{LUFFY} verify --in none.jsonl --verifier math", {}, "none.jsonl"),
    (f"{LUFFY} verify --in r.jsonl --verifier math", {"r.jsonl": "{"}, "r.jsonl"),
    (f"{LUFFY} verify --in r.jsonl --verifier math", {"r.jsonl": '{"gold": "1"}'}, "row 1: response: expected a text"),
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
        f"{LUFFY} new r.csv --mapping '{{problem: q, answer: a}}'",
        {"r.csv": "q,a\n1,2\n"},
        "targets.source.0.mapping: expected a column of the response, or of reasoning",
    ),
    (f"{LUFFY} verify --in r.jsonl --verifier math --mapping '{{gold: a}}'", {}, "mapping.gold is not a setting"),
    (f"{LUFFY} champion promote", {}, "missing TO; see luffy champion promote --help"),
    (f"{LUFFY} champion promote ''", {}, "'' is neither a run's folder nor the digest of a policy"),
    (f"{LUFFY} champion promote abcd", {}, "'abcd' is neither a run's folder nor the digest of a policy"),
    (
        f"{LUFFY} champion --profile small promote x",
        {},
        "--profile: leave out what stands before",
    ),
    (f"{LUFFY} champion promote /etc", {}, "/etc"),
    (f"{LUFFY} champion rollback", {}, "nothing to roll back"),
    (f"{LUFFY} champion", {"storage/registry/champion.json": "{"}, "champion.json: not a decision"),
    (f"{LUFFY} champion", {"storage/registry/champion.json": "[]"}, "champion.json: not a decision"),
    (f"{LUFFY} champion", {"storage/registry/champion.json": b"\xff"}, "champion.json"),
    (f"{LUFFY} champion", {"storage/registry/decisions/a.json": "{}"}, "a.json: not a decision"),
    (
        f"{LUFFY} champion promote abcd",
        {"storage/training/policy/x/policy/lineage.json": "{"},
        "lineage.json",
    ),
    (
        f"{LUFFY} champion promote abcd",
        {"storage/training/policy/x/policy/lineage.json": "[]"},
        "lineage.json",
    ),
    (
        f"LUFFY__STORAGE__ROOT=traces.jsonl {LUFFY} champion",
        {},
        "storage.root: {here}/traces.jsonl is a file; expected",
    ),
    (
        f"LUFFY__STORAGE__ROOT=traces.jsonl/x {LUFFY} champion",
        {},
        "storage.root: {here}/traces.jsonl is a file; expected",
    ),
    (f"LUFFY__STORAGE__ROOT=s3://x {LUFFY} champion", {}, "storage.root: expected a folder"),
    (f"{LUFFY} ui --port 0", {}, "--port: Input should be greater than or equal to 1 (got '0'); see luffy ui --help"),
    (f"{LUFFY} ui --host nowhere.invalid", {}, "error: --host nowhere.invalid: "),
    (f"{LUFFY} ui --host 192.0.2.1", {}, "give an address of this machine, such as --host 127.0.0.1"),
    (f"LUFFY__TRAINING__RECIPE=nothing {LUFFY} ui", {}, "training.recipe: no recipe 'nothing': expected one of"),
    (f"{LUFFY} nothing", {}, "No such command 'nothing'"),
    (f"{LUFFY} --nothing", {}, "No such option: --nothing"),
    (f"{LUFFY} run --nothing", {}, "No such option: --nothing; see luffy run --help"),
    (f"{LUFFY} run --profile nothing", {}, "profile 'nothing'"),
    (f"{LUFFY} run --select nope", {}, "--select 'nope'"),
    (f"{LUFFY} run more", {}, "unexpected extra argument"),
    (f"{LUFFY} demo --set training.seed=x", {}, "--set training.seed: Input should be"),
    (
        f"{LUFFY} champion promote abcd --profile embedded",
        {},
        "'abcd' is neither a run's folder nor the digest of a policy",
    ),
    ("research remake nothing.zip", {}, "nothing.zip: no such file"),
    ("research remake traces.jsonl", {}, "traces.jsonl: not a recorded run"),
    (
        "research words --model nothing",
        {},
        "no word_problems_train.jsonl there; docs/results/words.md says where to get it",
    ),
    (f"{LUFFY} doctor --hardware gpuu", {}, "error: no hardware 'gpuu'; did you mean gpu? expected one of cpu, gpu"),
    (f"{LUFFY} doctor --port 70000", {}, "--port: Input should be less than or equal to 65535"),
    (f"{LUFFY} targets --nothing", {}, "No such option: --nothing; see luffy targets --help"),
    (f"{LUFFY} targets browse model", {}, "missing --out; see luffy targets browse --help"),
    (f"{LUFFY} targets --set targets.workers=0 --out out --tokenizer model", {}, "--set targets.workers: "),
    (f"{LUFFY} train --print-config", {}, "no training interpreter at /no/python"),
    (f"{LUFFY} evaluate suite", {}, "no training interpreter at /no/python"),
    *(
        (f"{TRAINING} {RUN} --set training.config.{override}", {}, f"error: training.config: {message}")
        for override, message in (
            ("nosuch.key=1", "unknown key 'nosuch.key': luffy train --print-config prints"),
            ("trainer.save_frq=1", "unknown key 'trainer.save_frq': did you mean 'trainer.save_freq'?"),
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
