"""Record formats: the one place that defines the columns of every parquet file of the project.

``training`` and ``evaluation`` meet at these files and at the grader, nowhere else.
"""

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])

# Off-policy targets, in the schema of LUFFY's published training set (what verl and the reference loader read).
TARGET = pa.schema(
    [
        ("data_source", pa.string()),  # name of the source block; the file's metadata has the verifier of each
        ("prompt", pa.list_(MESSAGE)),
        # One assistant message "<think>\n...\n</think>\n\n...\boxed{...}", or turns with observations between them.
        ("target", pa.list_(MESSAGE)),
        ("ability", pa.string()),  # domain
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),  # style: of the verifier
        (
            "extra_info",
            pa.struct(
                [
                    ("split", pa.string()),  # "train" | "heldout"
                    ("index", pa.int64()),  # row in targets/train
                    ("id", pa.string()),  # stable trace id: where the row came from
                    ("source", pa.string()),  # file or dataset the row was read from
                ]
            ),
        ),
    ]
)

# What the verifier of a row reads besides the gold answer, as a JSON object: the optional last field of `extra_info`,
# and a column of the tables below.
FIELDS = pa.field("fields", pa.string())

# Optional last column of targets: the teacher's log-probability of each token of the target and of its end token, in
# the tokens of the policy. Training uses them with method.off_policy.phi=recorded.
TARGET_LOG_PROBS = pa.field("target_log_probs", pa.list_(pa.float32()))

# Optional column of targets: the share of the base model's samples that solve the problem; null where nobody measured
# it. Training reads it with method.guide=pass_rate<x and data.order=easy_first.
PASS_RATE = pa.field("pass_rate", pa.float64())


def target_schema(*optional: pa.Field, fields: bool = False) -> pa.Schema:
    """`TARGET` with ``optional`` columns, and with `FIELDS` in its `extra_info`."""
    place = TARGET.get_field_index("extra_info")
    info = pa.struct([*TARGET.field(place).type, FIELDS] if fields else [*TARGET.field(place).type])
    return pa.schema([*TARGET.set(place, pa.field("extra_info", info)), *optional])


def metadata_field(names: Sequence[str]) -> list[pa.Field]:
    """Define the optional last column of targets and their profile: the sources' metadata, as texts."""
    return [pa.field("metadata", pa.struct([(name, pa.string()) for name in names]))] if names else []


# One flat row per kept target: what the data-quality checks look at (never the long texts).
PROFILE = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),  # file or dataset the row was read from
        ("problem_digest", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("target_tokens", pa.int32()),
        ("calls", pa.int32()),  # of tools in the target
        ("observation_tokens", pa.int32()),  # of what they say, among target_tokens
        ("verified", pa.bool_()),  # the boxed answer agrees with the gold answer
        ("gold_parses", pa.bool_()),
        ("has_think", pa.bool_()),  # exactly one think block, with reasoning in it
        ("has_answer", pa.bool_()),  # a boxed answer after the last </think>
        ("compression_ratio", pa.float32()),  # zlib size / size: low means loops
        ("wrong_equation", pa.bool_()),  # its thoughts have an equation of two numbers that does not hold
        ("language", pa.string()),  # of its thoughts, or their script; "" where neither shows
        ("about_problem", pa.bool_()),  # its thoughts share the answer or half of the problem's numbers and words
        ("reaches_answer", pa.bool_()),  # the gold answer occurs in the thoughts
        ("gold_is_answer", pa.bool_()),  # the gold answer and the answer are the same text
        ("chars_per_word", pa.float32()),  # of the problem
        ("backslashes", pa.float32()),  # of the problem, per 100 characters
        ("html_escapes", pa.bool_()),  # such as &lt; in the problem or the target
        ("non_ascii", pa.float32()),  # characters of problem and target beyond ASCII, per 100
        ("gold_digest", pa.string()),
        ("benchmark_overlap", pa.bool_()),
    ]
)

# One row per trace that is not in the training set, with why, and enough to find it again.
REJECTED = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("row", pa.int64()),  # row in the source
        ("reason", pa.string()),  # name of the first filter that rejected it
        ("reasons", pa.list_(pa.string())),  # of every filter that rejected it, that one first
        ("detail", pa.string()),  # the numbers or the match behind each reason
        ("problem", pa.string()),
        ("gold", pa.string()),
        ("upstream_correct", pa.bool_()),
        ("verdict", pa.string()),  # "correct", or why not; null: the answer was not compared
        ("response", pa.string()),  # the generation; the middle of a long one is left out
        ("response_chars", pa.int64()),  # of the whole generation
        ("duplicate_of", pa.string()),  # what it repeats: the id of a kept trace, or BENCHMARK/ID
        ("duplicate_problem", pa.string()),  # the problem of that benchmark
    ]
)

# One row per trace that was read: why it is rejected (`reasons`, not empty), or the target it makes and its profile.
# The cache of a preparation holds these rows; every column is a field of targets.trace.Trace.
DECISION = pa.schema(
    [
        *(REJECTED.field(name) for name in ("id", "source", "row")),
        TARGET.field("data_source"),
        ("of", pa.int64()),  # traces that this row of the source gives
        *(REJECTED.field(name) for name in ("problem", "gold", "upstream_correct", "reasons", "detail")),
        *(
            REJECTED.field(name)
            for name in ("verdict", "response", "response_chars", "duplicate_of", "duplicate_problem")
        ),
        ("response_format", pa.string()),  # markers of the response
        TARGET.field("prompt"),
        ("target", pa.string()),
        ("turns", pa.list_(MESSAGE)),  # the target of an episode, whose texts are in ``target``, too; else null
        TARGET_LOG_PROBS,
        FIELDS,
        ("metadata", pa.map_(pa.string(), pa.string())),  # what the source says of the trace
        ("answer", pa.string()),  # the boxed answer that was verified
        PROFILE.field("problem_digest"),
        # What duplicates have in common, as numbers of 64 bits (`targets.select.dedupe.describe`):
        ("spelling_key", pa.int64()),  # the spelling of the problem
        ("text_key", pa.int64()),  # the problem, whatever its case and blanks
        ("gold_key", pa.int64()),  # that, and the gold answer
        ("near_key", pa.int64()),  # numbers, operators and gold answer: near duplicates
        ("target_key", pa.int64()),
        ("target_bytes", pa.int64()),
        ("has_log_probs", pa.bool_()),
        ("minhash", pa.binary()),  # of the target, where alike traces are compared
        *(field for field in PROFILE if field.name not in ("id", "source", "problem_digest")),
    ]
)

# The ledger of a training: one row per sample that starts with a target, or that is one, as the trainer has it before
# the update of its step. Nothing but step, target, source, share and gate where an update is only supervised.
USES = pa.schema(
    [
        ("step", pa.int32()),
        ("target", pa.string()),  # id of the target
        TARGET.field("data_source"),
        ("sample", pa.int32()),  # number in its group
        ("tokens", pa.int32()),  # of the target that the sample starts with
        ("solved", pa.int32()),  # of the policy's own samples in the group, those that are right
        ("samples", pa.int32()),  # the policy's own samples in the group
        ("advantage", pa.float32()),  # mean over the target's tokens, as are the next ones
        ("prob", pa.float32()),  # of a token under the policy
        ("low_prob", pa.float32()),  # its 10% quantile
        ("weight", pa.float32()),  # shaped probability; null where targets are not in the policy loss
        ("loss_share", pa.float32()),  # of the loss of the targets in the step
        ("gate", pa.float32()),  # what the method multiplies this sample's loss by
    ]
)

# One row per target of a training: what its uses came to. In `core.ledger_verdicts.LEARNED_FILE` of the run's folder.
LEARNED = pa.schema(
    [
        ("target", pa.string()),
        TARGET.field("data_source"),
        ("problem", pa.string()),
        ("uses", pa.int32()),  # steps that used it
        ("first_step", pa.int32()),
        ("last_step", pa.int32()),
        ("first_prob", pa.float32()),  # mean probability of a token at the first use, and at the last
        ("last_prob", pa.float32()),
        ("first_solved", pa.float32()),  # share of the policy's own samples that are right
        ("last_solved", pa.float32()),
        ("loss_share", pa.float32()),  # sum over its uses
        ("verdict", pa.string()),  # one of `core.ledger_verdicts.VERDICTS`
    ]
)

# One row per benchmark problem.
BENCHMARK = pa.schema(
    [
        ("benchmark", pa.string()),
        ("id", pa.string()),
        ("problem", pa.string()),  # what contamination checks compare
        ("prompt", pa.list_(MESSAGE)),  # what the chat template renders
        ("gold", pa.string()),  # of a choice the label of the right option, or all labels to choose: "A, C"
        ("alternatives", pa.list_(pa.string())),  # other right answers, any of which counts; null: none
        ("verifier", pa.string()),  # its type, or its spec as JSON
        ("subject", pa.string()),  # subject or difficulty, where known
        FIELDS,
    ]
)

ENTRIES_KEY = b"benchmarks"  # parquet metadata of a table of `BENCHMARK`: the entries of its suite as JSON

# One row per generated sample.
SAMPLE = pa.schema(
    [
        ("benchmark", pa.string()),
        ("id", pa.string()),
        ("sample", pa.int32()),
        ("prompt", pa.string()),  # rendered text that the model saw
        ("response", pa.string()),
        ("tokens", pa.int32()),
        ("finish_reason", pa.string()),  # "stop" | "length" | what an endpoint says, such as "content_filter"
        ("seed", pa.int64()),
    ]
)

# Optional last column of SAMPLE and GRADED where the model may call tools: its turns, and the observations between.
TURNS = pa.field("turns", pa.list_(MESSAGE))

UNTIL_DECIDED = "until_decided"  # in place of a number of samples per problem: as many as a decision takes


def is_sequential(tables: Iterable[pa.Table]) -> bool:
    """Whether SAMPLE or GRADED tables, by the sampling in their metadata, were drawn until they decided."""
    recorded = [(table.schema.metadata or {}).get(b"sampling", b"{}") for table in tables]
    return any(json.loads(text).get("samples") == UNTIL_DECIDED for text in recorded)


# A sample with its verdict.
GRADED = pa.schema(
    [
        *SAMPLE,
        ("gold", pa.string()),  # of several right answers the one that the response gives, or else the first
        ("extracted", pa.string()),
        ("verdict", pa.string()),  # grading.verdict.Verdict; "correct" is a solved problem
        ("reason", pa.string()),  # why
        ("subject", pa.string()),  # of the problem, where known
        ("score", pa.float64()),  # from 0 to 1
    ]
)
