"""Compare the resources that a run needs with those that are available, before anything starts.

``shape``: the numbers of a model; ``machine``: the nodes, their GPUs, memory and disk; ``attention``: which kernel;
``memory``: bytes per device and per node; ``roofline``: seconds per phase; ``resolve``: the values of ``auto`` keys;
``fit``: the comparison of both, and the refusal.
"""
