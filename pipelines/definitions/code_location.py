"""The code location: the definitions of this process's environment, which Dagster imports."""

import gc

collects = gc.isenabled()
gc.disable()  # all that a load creates stays: searching it for garbage takes a tenth of the load time
try:
    from pipelines.definitions.executor import steps
    from pipelines.definitions.factory import build_defs
    from pipelines.settings import load

    defs = build_defs(load(), executor=steps)
finally:
    if collects:
        gc.enable()
