"""Bad inputs of `evaluation`: command lines, requests, samples, verdicts. To add one, add a row."""

import math
import shutil
from pathlib import Path

import pytest
from rows import DEEP, Row, far_dates, name, nulls, parquet, retyped

MINE = "sources: [{file: mine.jsonl, columns: {problem: q, gold: a}}]"
SUITE_YAML = f"benchmarks:\n  - {{name: mine, group: evals, title: Mine, {MINE}}}\n"

GENERATE = "evaluation generate --suite suite.parquet --out out --model"
REMOTE = "m@http://127.0.0.1:9/v1"
GRADE = "evaluation grade --suite suite.parquet --samples samples --out out"
SUITE = "evaluation suite --out out.parquet"
REPORT = "evaluation report --suite suite.parquet --base graded --policy graded --out out.html"

OUT_IS_FILE = '{"model": "model", "suite": "suite.parquet", "out": "suite.parquet"}'
MINE_SUITE = f"{SUITE} --suite mine.yaml"


def other_golds(path: Path) -> None:
    """The graded results, as if the suite had other gold answers."""
    shutil.copy(path.parents[1] / "graded" / path.name, path)
    retyped("gold", ["2", "3"])(path)


ROWS: list[Row] = [
    # command lines
    ("evaluation", {}, "Missing command; see python -m evaluation --help"),
    ("evaluation nothing", {}, "No such command 'nothing'"),
    ("evaluation suite", {}, "missing --out; see python -m evaluation suite --help"),
    ("evaluation traces --teacher model", {}, "missing --out; see"),
    ("evaluation traces --out t.parquet", {}, "--teacher, --problems: generate.teacher: Field required"),
    ("evaluation traces --teacher model --problems none.jsonl --out t.parquet", {}, "none.jsonl: no such file"),
    ("evaluation traces --teacher model --problems p.csv --out t.parquet", {"p.csv": "a,b"}, "p.csv: "),
    (
        "evaluation traces --teacher nothing --problems p.jsonl --out t.parquet --verifier gym --fields [item]",
        {},
        "--fields: the verifier gym reads the field 'entry', and the file p.jsonl has only data_source, problem, item",
    ),
    ("evaluation traces --teacher nothing --problems traces.jsonl --out t.parquet", {}, "nothing: no such folder"),
    (
        "evaluation traces --teacher model --problems traces.jsonl --budget-tokens 9 --out t.parquet",
        {},
        "a budget is for endpoints",
    ),
    (
        f"{GENERATE} model --set 'evaluation.endpoint={{leave_out: [seed]}}'",
        {},
        "endpoint: model: no MODEL@URL; leave it out",
    ),
    (
        f"{GENERATE} {REMOTE} --set evaluation.endpoint=[seed]",
        {},
        "evaluation.endpoint: in it: expected a mapping, such as {leave_out: [seed]}",
    ),
    (f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{leave_out: [n]}}'", {}, "leave_out.0: Input should be 'seed'"),
    (
        f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{extra_bdy: {{}}}}'",
        {},
        "extra_bdy is not a setting; did you mean extra_body?",
    ),
    (
        f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{extra_body: {{n: 2}}}}'",
        {},
        "extra_body.n cannot be set here: the sampling",
    ),
    (f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{extra_body: {{x: .nan}}}}'", {}, "extra_body"),
    (f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{'", {}, "--set evaluation.endpoint: not YAML"),
    ("evaluation difficulty --samples none.parquet --out d.parquet", {}, "none.parquet"),
    ("evaluation difficulty --samples targets.parquet --out d.parquet", {}, "targets.parquet"),
    (
        "evaluation difficulty --samples a.parquet --out b.parquet --truncated zero",
        {},
        "No such option: --truncated",
    ),
    (
        "evaluation browse graded --out graded/arithmetic.parquet",
        {},
        "is in the folder graded, whose parquet files",
    ),
    ("evaluation browse graded --out model", {}, "model is a folder"),
    (
        "evaluation leaderboard --results . --markdown graded/arithmetic.parquet",
        {},
        "whose parquet files the command reads",
    ),
    (
        "evaluation difficulty --samples t.parquet --out ./t.parquet",
        {},
        "would overwrite this file",
    ),
    ("evaluation traces --teacher model --problems p.jsonl --out {here}/p.jsonl", {}, "would overwrite this file"),
    (f"{SUITE.replace('out.parquet', 's.yaml')} --suite s.yaml", {"s.yaml": SUITE_YAML}, "would overwrite this file"),
    (
        "evaluation suite --out m.jsonl --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML.replace("mine.jsonl", "m.jsonl"), "m.jsonl": '{"q": "1+1?", "a": "2"}\n'},
        "m.jsonl: the command would overwrite this file",
    ),
    (f"{REPORT} --markdown suite.parquet", {}, "suite.parquet: the command would overwrite"),
    (f"{REPORT} --markdown ./out.html", {}, "out.html: the command would overwrite"),
    *(
        (
            "evaluation traces --teacher nothing --problems p.jsonl --out t.parquet",
            {"p.jsonl": f'{{"problem": "1+1?", "answer": 2}}\n{{"problem": {problem}, "answer": {answer}}}\n'},
            f"p.jsonl: row 2: column {column}: expected text, found {shown}",
        )
        for problem, answer, column, shown in (
            ("NaN", "2", "problem", "nan"),
            ('"2+2?"', "NaN", "answer", "nan"),
            ('"2+2?"', '"NaN"', "answer", "'NaN'"),
            ('"2+2?"', "true", "answer", "True"),
        )
    ),
    ("evaluation browse model --out page.html", {}, "model: no <benchmark>.parquet there"),
    (
        "evaluation export inspect --samples model --suite suite.parquet --out logs",
        {},
        "model: no <benchmark>.parquet there",
    ),
    ("evaluation export inspect --samples graded --suite none.parquet --out logs", {}, "none.parquet"),
    ("evaluation export inspect --samples graded --suite targets.parquet --out logs", {}, "targets.parquet"),
    ("evaluation export lm-eval --suite none.parquet --out tasks", {}, "none.parquet"),
    (
        "evaluation export lm-eval --suite suite.parquet --samples model --out tasks",
        {},
        "model: no <benchmark>.parquet there",
    ),
    (f"{SUITE} --limit 0", {}, "--limit: benchmarks.limit: Input should be greater than or equal to 1 (got '0')"),
    (f"{SUITE} --limit x", {}, "--limit: benchmarks.limit: Input should be a valid integer"),
    (f"{SUITE} --set benchmarks.seed=-1", {}, "--set benchmarks.seed: Input should be greater"),
    (f"{SUITE} --set targets.seed=1", {}, "--set targets.seed: this command reads the sections suite, benchmarks"),
    (f"{GRADE} --set evaluation.grade_workers=0", {}, "--set evaluation.grade_workers: Input should be greater"),
    (f"{GRADE} --set evaluation.grade_limit_s=.nan", {}, "--set evaluation.grade_limit_s: Input should be"),
    (f"{GENERATE} model --temperature nan", {}, "--temperature: evaluation.temperature: Input should be a finite"),
    (f"{GENERATE} model --set evaluation.top_p=1.5", {}, "--set evaluation.top_p: Input should be less"),
    (f"{GENERATE} model --samples 0", {}, "--samples: evaluation.samples: Input should be greater than 0"),
    (f"{GENERATE} model --template nothing", {}, "--template: evaluation.template: there is no 'nothing'"),
    ("evaluation compare graded graded2 --pass-at 0", {}, "--pass-at: Input should be greater than or equal to 1"),
    (f"{GENERATE} model --set interpreter.slurm=3", {}, "--set interpreter.slurm: Input should be a mapping"),
    (
        f"{GENERATE} model --set interpreter.backend=ray",
        {},
        "interpreter.ray_address: backend ray needs the dash",
    ),
    (f"{GENERATE} model --set interpreter.ray_address=foo", {}, "got 'foo', expected the dashboard of a Ray"),
    (f"{GENERATE} model --set interpreter.backend=cloud", {}, "--set interpreter.backend: Input should be 'local'"),
    (f"{SUITE} --roots . more", {}, "unexpected extra argument(s) (more)"),
    # requests
    ("evaluation generate --request nothing.json", {}, "nothing.json"),
    ("evaluation generate --request r.json", {"r.json": "{"}, "r.json: not JSON"),
    (
        "evaluation generate --request r.json",
        {"r.json": '{"modell": "m"}'},
        "did you mean model?",
    ),
    ("evaluation generate --request r.json", {"r.json": '{"model": "m", "suite": "s"}'}, "r.json: out: Field required"),
    ("evaluation grade --request r.json", {"r.json": '{"evaluation": {"top_p": 2}}'}, "r.json: "),
    (
        "evaluation traces --request r.json",
        {"r.json": '{"generate": {"teacher": "t", "problems": "p"}, "out": "o", "verifier": {"type": "chioce"}}'},
        "r.json: verifier: --verifier: no verifier 'chioce'; did you mean choice?",
    ),
    ("evaluation traces --request r.json --samples 1", {"r.json": "{}"}, "leave out --samples: the file has all of it"),
    # keys that are given twice
    (MINE_SUITE, {"mine.yaml": f"title: a\n{SUITE_YAML}title: b\n"}, "mine.yaml, line 4: the key title is given twice"),
    (
        MINE_SUITE,
        {"mine.yaml": SUITE_YAML.replace("group: evals", "group: evals, group: ood")},
        "line 2: the key group is given twice; give it once",
    ),
    ("evaluation grade --request r.json", {"r.json": '{"suite": "a", "suite": "b"}'}, "r.json: the key suite is given"),
    (
        f"{GENERATE} model --set 'evaluation.endpoint={{a: 1, a: 2}}'",
        {},
        "--set evaluation.endpoint, line 1: the key a is given twice",
    ),
    # outputs
    (
        "evaluation suite --out suite.parquet/s",
        {},
        "--out: suite.parquet/s: suite.parquet is a file; expected a folder",
    ),
    (f"{GRADE}/x/y", {"out": "text"}, "--out: out/x/y: out is a file; expected a folder"),
    (f"{GENERATE} model", {"out": "text"}, "--out: out is a file; expected a folder: give another path"),
    ("evaluation generate --request r.json", {"r.json": OUT_IS_FILE}, "r.json: out: suite.parquet is a file"),
    ("evaluation traces --teacher model --problems p.jsonl --out model", {}, "--out: model is a folder"),
    ("evaluation difficulty --samples traces.parquet --out suite.parquet/d", {}, "suite.parquet is a file"),
    ("evaluation compare model --out suite.parquet", {}, "--out: suite.parquet is a file"),
    (f"{REPORT} --markdown model", {}, "--markdown: model is a folder"),
    (
        "evaluation export inspect --samples nothing --suite suite.parquet --out suite.parquet",
        {},
        "suite.parquet is a file; expected a",
    ),
    (
        "evaluation export lm-eval --suite nothing --out suite.parquet/x",
        {},
        "suite.parquet is a file; expected a folder",
    ),
    # results
    ("evaluation grade --suite suite.parquet --samples nothing --out out", {}, "nothing: no <benchmark>.parquet there"),
    (f"{GRADE}", {"samples/arithmetic.parquet": b""}, "arithmetic.parquet: not a readable parquet file"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("id", nulls)}, "samples"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", nulls)}, "samples"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", far_dates)}, "column response"),
    *(
        (command, {"graded/arithmetic.parquet": retyped(column, values)}, f"graded/arithmetic.parquet: {said}")
        for command in ("evaluation compare graded model", REPORT, "evaluation leaderboard --results .")
        for column, values, said in (
            ("score", [1.0, math.nan], "row 1: the score is nan, expected a number from 0 to 1"),
            ("score", [math.inf, 0.0], "row 0: the score is inf"),
            ("score", ["1", "0"], "column score: expected double, got string"),
            ("score", [1.0, 0.0], "row 1: the verdict is correct, and the score 0 contradicts it"),
            ("id", ["a", "a"], "row 1: sample 0 of problem a is there twice; grade the samples again"),
            ("verdict", ["correct", "right"], "row 1: the verdict is 'right', expected one of correct, "),
        )
    ),
    (
        REPORT,
        {"graded/arithmetic.parquet": retyped("id", ["a", "b"])},
        "--base graded: samples of arithmetic: 2 rows over 2 problems do not cover the 2 problems of the suite",
    ),
    (
        "evaluation compare graded model",
        {"graded/arithmetic.parquet": retyped("benchmark", ["a", "b"])},
        "graded/arithmetic.parquet: rows of a, b; expected arithmetic alone",
    ),
    (
        "evaluation compare graded other",
        {"other/arithmetic.parquet": other_golds},
        "arithmetic: the two results are of different problems or gold answers that have the same ids",
    ),
    ("evaluation compare ./nothing ./nothing2", {}, "./nothing: no <benchmark>.parquet"),
    ("evaluation compare graded graded", {}, "given twice"),
    ("evaluation compare graded model/config.json", {}, "model/config.json"),
    ("evaluation leaderboard --results nothing", {}, "nothing: no graded results"),
    ("evaluation leaderboard --results graded", {"graded/arithmetic.parquet": b"PAR1xxxxPAR1"}, "arithmetic.parquet"),
    (f"{REPORT} --lineage l.json", {"l.json": "{"}, "l.json: not JSON"),
    (f"{REPORT} --lineage l.json", {"l.json": "[1]"}, "l.json: expected a JSON object"),
    (f"{REPORT} --lineage l.json", {"l.json": '{"targets": []}'}, "; give the lineage.json of a policy"),
    (f"{REPORT} --lineage l.json", {"l.json": DEEP}, "l.json: nested too deep"),
    (f"{REPORT} --metrics m.jsonl", {"m.jsonl": "[1]\n"}, "m.jsonl"),
    (f"{REPORT} --metrics m.jsonl", {"m.jsonl": '{"step": 1}\n'}, "m.jsonl"),
    (f"{REPORT} --filter-counts f.json", {"f.json": "{}"}, "f.json"),
    (f"{REPORT} --filter-counts f.json", {"f.json": "[[1, 2, 3]]"}, "f.json"),
    (f"{REPORT} --targets nothing.parquet", {}, "nothing.parquet: no such file"),
    (f"{REPORT} --targets t.parquet", {"t.parquet": parquet(a=[1])}, "t.parquet: no column prompt"),
    (f"{REPORT} --targets t.parquet", {"t.parquet": parquet(prompt=["x"])}, "t.parquet: column prompt"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)


@pytest.mark.parametrize("row", ROWS[1:2], ids=name)
def test_the_process_that_a_user_starts_ends_in_the_same_way(row, refuse_process):
    refuse_process(row)
