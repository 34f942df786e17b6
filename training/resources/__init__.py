"""Compare the resources that a run needs with those that are available, before anything starts.

``model_shape``: the numbers of a model; ``machine``: the nodes, their GPUs, memory and disk; ``attention``: which
kernel; ``memory`` and ``host``: bytes per device and per node; ``roofline``: seconds per phase; ``auto_values``: what
``auto`` keys become; ``fit_check``: the comparison of both, and the refusal.
"""
