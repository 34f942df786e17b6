"""Generate the pages of the training: its options, recipes, hardware profiles, metrics and Python interface."""

from core import PROJECT
from core.metric_table import METRICS, Metric, View
from core.plugins.config_files import HARDWARE, RECIPES
from pipelines.reference.page_markdown import block, code, page, table
from pipelines.reference.settings_pages import default_text
from training import algorithms
from training.config.kinds import text_of
from training.config.run import fields
from training.plugins import METHODS

PLACES = {
    View.POLICY: "policy",
    View.CHAMPION: "against the champion",
    View.RECIPES: "comparisons",
    View.TERMINAL: "terminal",
}
# The formulas and their options, by module.
FORMULAS = {
    "on_policy": "Losses of on-policy tokens (`method.on_policy`)",
    "off_policy": "The ratio of off-policy tokens (`method.off_policy`)",
    "aggregate": "From tokens to one number (`method.reduce`)",
    "correction": "Rollout corrections (`method.correction`)",
    "prefix": "Prefixes (`method.prefix`)",
    "imitation": "The supervised loss (`method.imitation`)",
    "gate": "Gates (`method.gate`)",
    "regularize": "Entropy and divergence (`method.entropy`, `method.reference`, `method.reward_kl`)",
    "teacher": "A teacher (`method.teacher`)",
}


def options_page() -> str:
    """Generate the page of the training's options; docs/algorithm.md lists the options of the method."""
    shared = (PROJECT / "training" / "config" / "verl.yaml").read_text(encoding="utf-8")
    keys = [(code(key), text_of(field), code(default_text(field))) for key, field in fields()]
    return page(
        "Training options",
        "The keys of the training configuration that are not verl's. Set a key with `luffy train --set KEY=VALUE`, "
        "or in `training.config` of a profile. `luffy train --print-config` prints the whole configuration, with "
        "verl's keys. [The algorithm](../algorithm.md) explains the keys of `method`, each next to its formula.",
        "## Sections",
        "The comments of `training/config/run.py` say what each does.",
        table(("key", "what it may be", "default"), keys),
        "## What all trainings change in verl's configuration",
        block("yaml", shared),
        "## Hardware profiles",
        *_files(HARDWARE),
    )


def recipes_page() -> str:
    """Generate the page with every recipe, verbatim."""
    return page(
        "Recipes",
        "A recipe is a file of `training/config/recipe`: what it changes in [the options](training-options.md), or in "
        "the recipe that it names under `defaults`. [Training](../training.md#recipes) says in a line what each does.",
        *_files(RECIPES),
    )


def _files(group: str) -> list[str]:
    files = sorted((PROJECT / group).glob("*.yaml"))
    return [f"### {file.stem}\n\n{block('yaml', file.read_text(encoding='utf-8'))}" for file in files]


def metrics_page() -> str:
    """Generate the page with every metric and its plots."""
    return page(
        "Metrics",
        "What a training logs at each step. `metrics.jsonl` in the folder of the run and the trackers have all of it. "
        "A live metric is also an observation of `training/metrics` in the Dagster UI while the training runs. Charts "
        "are drawn on the page of `training/policy` (policy, against the champion), on the pages that compare recipes "
        "and in the scorecard (comparisons), and on the terminal. A name with `*` stands for all that begin like it.",
        table(("metric", "what it is", "unit", "better", "live", "charts"), map(_metric_row, METRICS)),
    )


def _metric_row(metric: Metric) -> tuple[str, ...]:
    return (
        code(metric.name),
        metric.label.format("`*`").replace("|", r"\|"),
        metric.unit,
        metric.better,
        "yes" if metric.live else "",
        ", ".join(place for view, place in PLACES.items() if view in metric.views),
    )


def api_page() -> str:
    """Write the directives of mkdocstrings, which reads the docstrings from the sources."""
    contract = [f"::: {algorithms.ORIGINAL}.{name}" for name in algorithms.__all__]
    formulas = [f"## {title}\n\n::: training.algorithms.{name}" for name, title in FORMULAS.items()]
    methods = [f"### {name}\n\n::: {path.replace(':', '.')}" for name, path in METHODS.items()]
    return page(
        "Python interface",
        "What you can import without verl. [The algorithm](../algorithm.md) has the formulas on one page.",
        "## The functions of the original implementation",
        "They have its names and signatures: `from training.algorithms import compute_token_on_off_policy_loss`.",
        *contract,
        "## Methods",
        *methods,
        *formulas,
    )
