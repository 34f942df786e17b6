"""Generate the page of the Python interface: the original's functions, and the choices by name."""

from pipelines.reference.page_markdown import page
from training import algorithms
from training.algorithms import registry

TABLES = {
    "LOSSES": "Token losses (`mixed.loss`)",
    "ON_POLICY_LOSSES": "Losses of on-policy tokens (`mixed.on_policy_loss`)",
    "RESHAPES": "Shaping functions (`mixed.off_policy_reshape`, `mixed.on_policy_reshape`)",
    "LOSS_AGG_MODES": "From tokens to one number (`mixed.loss_agg_mode`)",
    "CORRECTIONS": "Rollout corrections (`mixed.rollout_correction.type`)",
    "PREFIX_STRATEGIES": "Prefixes (`mixed.prefix.strategy`)",
    "SFT_WEIGHTS": "Weights of the supervised loss (`mixed.sft_multitask.weight`)",
    "GATES": "Gates (`mixed.gate.type`)",
}


def api_page() -> str:
    """Write the directives of mkdocstrings, which reads the docstrings from the sources."""
    contract = [f"::: {algorithms.ORIGINAL}.{name}" for name in algorithms.__all__]
    tables = []
    for name, title in TABLES.items():
        functions = [f"`{key}`\n\n::: {path.replace(':', '.')}" for key, path in getattr(registry, name).items()]
        tables += [f"## {title}", *functions]
    return page(
        "Python interface",
        "What you can import without verl. [The algorithm](../algorithm.md) has the formulas on one page.",
        "## The functions of the original implementation",
        "They have its names and signatures: `from training.algorithms import compute_token_on_off_policy_loss`.",
        *contract,
        "## Options",
        "::: training.algorithms.options.MixedPolicyOptions\n    options: {members: [from_mapping, check_group]}",
        *tables,
    )
