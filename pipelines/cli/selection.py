"""What ``--select`` names: assets of the graph, and stages as the terminal prints them."""

import warnings
from collections.abc import Mapping, Sequence

import dagster as dg

from core.errors import InputError, did_you_mean, first_line
from core.text.patterns import Match, compile_quick_pattern

FILTERS = ("key", "group", "kind", "tag", "owner")
PART = compile_quick_pattern(r"\b([a-z_]+):(?:\"([^\"]*)\"|([^\s()\"=+]+))(?:=(?:\"[^\"]*\"|[^\s()\"+]+))?")
BARE = compile_quick_pattern(r"^(\d*\+?)(\w[^\s():+]*)(?=\+?\d*$)")  # one name, with nothing else
EXAMPLES = "+group:targets, +key:targets/train or key:training/policy (+ takes along what it needs)"


def selection_keys(defs: dg.Definitions, text: str, job: str) -> tuple[list[dg.AssetKey], list[dg.AssetKey]]:
    """Return the assets that a selection string names: the assets of ``job``, and the others.

    ``key:`` also takes the name of a stage, such as evals/base or targets/checks, for the assets that it makes or
    checks. Raises InputError for a string that is no selection, or names what is not there.
    """
    graph = defs.resolve_asset_graph()
    executable = defs.resolve_job_def(job).asset_layer.executable_asset_keys
    stages = _stages(defs)
    names = {
        "key": [*stages, *(key.to_user_string() for key in graph.get_all_asset_keys())],
        "group": [group for node in graph.asset_nodes if (group := node.group_name)],
    }

    def resolved(part: Match) -> str:
        kind, name = part[1], part[2] if part[2] is not None else part[3]
        if kind not in FILTERS:
            raise InputError(f"--select {text!r}: {kind}: is no filter of a run; expected one of {', '.join(FILTERS)}")
        if kind == "key" and name in stages:
            return f"({' or '.join(f'key:{key.to_user_string()}' for key in stages[name])})"
        if not dg.AssetSelection.from_string(part[0]).resolve(graph):
            raise InputError(f"--select {text!r}: no asset has the {kind} {name}{_known(name, names.get(kind, ()))}")
        return part[0]

    with warnings.catch_warnings():  # Dagster's own use of its own beta parameter
        warnings.simplefilter("ignore", dg.BetaWarning)
        try:
            named = PART.sub(resolved, BARE.sub(r"\1key:\2", text))
            keys = dg.AssetSelection.from_string(named).resolve(graph)
        except dg.DagsterError as error:
            reason = f"{first_line(error)}; expected a selection such as {EXAMPLES}"
            raise InputError(f"--select {text!r}: {reason}") from error
    selected = sorted(keys & graph.materializable_asset_keys)
    return [key for key in selected if key in executable], [key for key in selected if key not in executable]


def _stages(defs: dg.Definitions) -> Mapping[str, list[dg.AssetKey]]:
    """Return the assets that each stage makes or checks, by the name that the terminal prints."""
    parts = (*(defs.assets or ()), *(defs.asset_checks or ()))
    return {
        part.op.name.replace("__", "/"): sorted({*part.keys, *(check.asset_key for check in part.check_keys)})
        for part in parts
        if isinstance(part, dg.AssetsDefinition) and part.is_executable
    }


def _known(name: str, names: Sequence[str]) -> str:
    known = sorted(set(names))
    ends = [other for other in known if other.rpartition("/")[2] == name]
    meant = f"; did you mean {' or '.join(ends)}?" if ends else did_you_mean(name, known)
    return f"{meant}; known: {', '.join(known)}" if known else ""
