"""verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the profiles names it.

It is the one import with an effect: it applies `training.platforms.quirks`, registers our kernel of attention and, on a
CPU, verl's platform for it, and notes the exceptions that verl and vLLM log.
"""

import importlib

from training.platforms import packed_attention, quirks
from training.platforms.causes import note_logged_exceptions

note_logged_exceptions()
packed_attention.register()
if quirks.on_cpu():
    quirks.apply(quirks.CPU_PROCESS)
    importlib.import_module("training.platforms.cpu")
quirks.apply(quirks.PROCESS)
