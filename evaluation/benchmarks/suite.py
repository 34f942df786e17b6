"""The registry of benchmarks: the format of an entry in a suite's YAML file.

You add a benchmark by adding an entry to a YAML file (``suites/paper.yaml`` shows every form). `load_suite` reads that
file alone, so that the Dagster code location can define one asset per benchmark;
`evaluation.benchmarks.benchmark_problems` reads the files with the problems.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from core import PROJECT
from core.errors import InputError, validated
from core.files import read_yaml
from core.model.prompts import PROBLEM
from core.plugins.config_files import SUITES, config_file
from core.settings import UserPath, user_path
from grading.answers.gold import AnswerForm
from grading.gym_tasks import ENTRY, GYM, task_of
from grading.row_fields import OPTIONS
from grading.row_fields import Columns as NamedColumns
from grading.verifiers.spec import SpecValue, VerifierSpec, domain_of, parse_spec, require_fields

if TYPE_CHECKING:
    import pyarrow as pa

ALONE = "alone"  # group of the benchmarks that models answer without their tools
GROUPS = {"evals": "In domain", "ood": "Out of domain", ALONE: "Without tools"}


class Columns(BaseModel):
    """The columns of a benchmark file, as dotted paths into a row; a list of messages stands for its user message."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    problem: str | tuple[str, ...] = "prompt"  # several: their texts, joined by a space
    gold: str = "reward_model.ground_truth"
    options: str | None = None  # their texts (see `grading.answers.options`), labelled A to J in the prompt
    labels: str | None = None  # the file's own labels of the options, where gold is one of them ("A", or "1")
    id: str | None = None  # without it, a digest of the problem
    subject: str | None = None


class Published(BaseModel):
    """Scores that others have published for this benchmark, in percent; never measured here."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str
    scores: dict[str, float]  # model -> percent


class Source(BaseModel):
    """Where a benchmark can be read from: a file next to the suite, in a root folder or in a dataset repository of the
    hub, or a split of such a dataset."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str | None = None
    hub: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")  # dataset repository that has `file` or `split`
    revision: str | None = None  # its commit, tag or branch
    split: str | None = None
    subset: str | None = None  # (configuration) of the dataset; none: the default one
    where: dict[str, str] = Field(default_factory=dict)  # dotted path -> value that kept rows have
    columns: Columns = Columns()
    fields: NamedColumns = {}  # columns that the verifier reads besides the gold answer
    answer_form: AnswerForm = "text"  # form of the column `gold` (see `grading.answers.gold`)
    gold_list: Literal["all", "any"] = "all"  # a list of golds: all of them are the answer, or any one of them is
    index_base: Literal[0, 1] | None = (
        None  # gold is the position of the right option, counted from it; none: its label
    )
    repeated: bool = False  # rows of the same problem are avg@k copies
    shuffle_options: bool = False  # put the options of each problem in an order drawn from the seed
    boilerplate: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _beside_the_suite(cls, values: Any, info: ValidationInfo) -> Any:
        """Give a file next to the suite its absolute path."""
        folder = (info.context or {}).get("folder")
        if folder and isinstance(values, dict) and isinstance(values.get("file"), str) and not values.get("hub"):
            beside = folder / values["file"]
            return {**values, "file": str(beside)} if beside.is_file() else values
        return values

    @model_validator(mode="after")
    def _fits(self) -> "Source":
        if bool(self.hub) != bool(self.revision):
            raise ValueError("`hub` and `revision` belong together: a file of the hub needs the commit that is meant")
        if bool(self.file) == bool(self.split) or (self.split and not self.hub) or (self.subset and not self.split):
            raise ValueError("give a `file`, or the `split` (and `subset`) of a dataset of the `hub`")
        if self.shuffle_options and not self.columns.options:
            raise ValueError("`shuffle_options` needs `columns.options`: options inside a problem's text stay in place")
        if self.columns.labels and not self.columns.options:
            raise ValueError("`columns.labels` needs `columns.options`, since it labels the options")
        if self.columns.options and OPTIONS in self.fields:
            raise ValueError("`columns.options` gives the options to the prompt and the verifier; leave `fields` out")
        return self


def _file_here(source: Any, folder: Path) -> Any:
    if not isinstance(source, dict) or "hub" in source or "file" not in source:
        return source
    return {**source, "file": user_path(source["file"], folder)}


class Benchmark(BaseModel):
    """One entry of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    group: Literal["evals", "ood", "alone"]
    title: str
    verifier: SpecValue = "math"  # how answers are checked
    domain: str | None = None  # heading in the scorecard where a group has several; none: that of the verifier
    samples: int = Field(default=1, ge=1)  # k of avg@k, the metric
    prompt: str | None = None  # what a model is asked, with {problem} in it; none: the problem alone
    size: int | None = Field(default=None, ge=1)  # problems in the whole benchmark; how many a generator makes
    sample: int | None = Field(default=None, ge=1)  # so many problems of the files, drawn by the seed; none: all
    held_out: bool = False  # of the traces: only equal problems are kept from the targets, and it is no contamination
    sources: Annotated[tuple[Source, ...], UserPath(_file_here)] = ()
    obtain: str | None = None  # where its files can be had, for people who do not have them
    generator: str | None = Field(default=None, pattern=rf"^(arithmetic|{GYM[:-1]}):[a-z0-9_]+$")
    options: dict[str, Any] = {}  # options of a task of Reasoning Gym: seed, and what the task takes
    published: Published | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_its_generator(cls, values: Any) -> Any:
        is_task = isinstance(values, dict) and task_of(str(values.get("generator")))
        return {"verifier": "gym", **values} if is_task else values

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Benchmark":
        if bool(self.sources) == bool(self.generator):
            raise ValueError("give either `sources` or `generator`")
        if self.generator and self.size is None:
            raise ValueError("a generator needs a `size`")
        if self.options and not self.task:
            raise ValueError(f"`options` belong to a task: they need a `generator: {GYM}TASK`")
        if self.spec.type != "choice" and any(source.index_base is not None for source in self.sources):
            raise ValueError("`index_base` needs `verifier: choice`: it reads the position of an option")
        generated: tuple[str, ...] = (ENTRY,) if self.task else ()
        for fields in [source.fields for source in self.sources] or [generated]:
            require_fields(self.spec, fields, f"the benchmark {self.name}")
        if self.prompt is not None and PROBLEM not in self.prompt:
            raise ValueError(f"`prompt` lacks {PROBLEM}, the place of the problem")
        return self

    @property
    def task(self) -> str | None:
        """The task of Reasoning Gym that its generator names."""
        return task_of(self.generator or "")

    @property
    def domain_name(self) -> str:
        """Its domain: mathematics has the name "math", other answers by default the domain of their verifier's type."""
        return self.domain or domain_of(self.spec)

    @property
    def spec(self) -> VerifierSpec:
        """Its verifier."""
        return parse_spec(self.verifier, f"benchmark {self.name}")


def _named_once(benchmarks: list[Benchmark]) -> list[Benchmark]:
    names = [benchmark.name for benchmark in benchmarks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} named more than once; give each another name")
    return benchmarks


Benchmarks = Annotated[list[Benchmark], AfterValidator(_named_once)]


class _Suite(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = ""
    benchmarks: Benchmarks = Field(min_length=1)


def load_suite(name_or_path: str | Path) -> list[Benchmark]:
    """Read the benchmarks of a shipped suite (a file of ``suites``) or of the user's YAML file; open no data file.

    Relative paths of verifiers and of existing data files start in the folder of the YAML file.
    """
    path = config_file(SUITES, str(name_or_path))
    content, context = read_yaml(path, "benchmark suite"), {"folder": path.resolve().parent}
    advice = f"; see {PROJECT / SUITES / 'paper.yaml'}"
    return validated(_Suite, content, f"benchmark suite {path}: ", advice, context=context).benchmarks


def suite_entries(suite: "pa.Table") -> list[Benchmark]:
    """Return the registry entries that `read_suite` recorded in a suite table; InputError if it recorded none."""
    from core.schemas import ENTRIES_KEY

    recorded = (suite.schema.metadata or {}).get(ENTRIES_KEY)
    if recorded is None:
        raise InputError("the suite's parquet file lacks its registry entries; make it with luffy evaluate suite")
    return [Benchmark.model_validate(entry) for entry in json.loads(recorded)]
