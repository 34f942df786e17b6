"""The code location: the definitions of this process's environment, which Dagster imports."""

from assets.shared.profile import Names
from pipelines.definitions.executor import forked_steps
from pipelines.definitions.factory import build_defs
from pipelines.definitions.settings import load_settings

defs = build_defs(load_settings(), Names(), executor=forked_steps)
