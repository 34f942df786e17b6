"""verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the profiles names it.

It is the one import with an effect: it applies `training.platforms.quirks`, and registers our kernel of attention
and, on a CPU, verl's platform for it.
"""

import importlib

from training.platforms import packed_attention, quirks

packed_attention.register()
if quirks.on_cpu():
    quirks.apply(quirks.CPU_PROCESS)
    importlib.import_module("training.platforms.cpu")
quirks.apply(quirks.PROCESS)
