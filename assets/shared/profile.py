"""The parts of a profile that assets read: the defaults of their configuration, and fixed settings.

An asset is a function of its module. `profile_asset` declares one whose definition needs the profile: its options are
the defaults that the Launchpad shows, and the suite or another asset may add inputs and outputs.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.experiment_options import ExperimentOptions
from assets.shared.failures import reports_input_errors
from assets.shared.options import Options, PromotionOptions, TargetOptions, TrainingOptions, with_defaults
from evaluation.benchmarks.suite import Benchmark


@dataclass(frozen=True)
class Profile:
    """The resource ``profile``: the parts of the settings that an asset reads and no run can change."""

    suite: Sequence[Benchmark]
    checks: Path  # the suite of quality checks
    targets: TargetOptions
    training: TrainingOptions
    experiments: ExperimentOptions
    promotion: PromotionOptions


@dataclass(frozen=True)
class AssetTemplate:
    """A function that becomes an asset when the profile is loaded."""

    function: Callable[..., Any]
    decorator: Callable[..., Any]
    attributes: dict[str, Any]

    def build(self, options: Options | None = None, **more: Any) -> Any:
        """The definition, whose configuration has the values of ``options`` as defaults; ``more`` of its attributes."""
        function = reports_input_errors(self.function)
        if options is not None:
            signature = inspect.signature(function)
            config = signature.parameters["config"].replace(annotation=with_defaults(options))
            parameters = {**signature.parameters, "config": config}
            vars(function)["__signature__"] = signature.replace(parameters=list(parameters.values()))
            function.__annotations__ = {**function.__annotations__, "config": config.annotation}
        return self.decorator(**self.attributes, **more)(function)


def profile_asset(
    decorator: Callable[..., Any] = dg.asset, **attributes: Any
) -> Callable[[Callable[..., Any]], AssetTemplate]:
    """Declare the function below as an asset; ``attributes`` are those of the ``decorator``.

    Its parameter ``config`` has the class of its options. An `InputError` ends its step with that message.
    """
    return lambda function: AssetTemplate(function, decorator, attributes)
