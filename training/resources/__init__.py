"""Compare the resources that a run needs with those that are available, before anything starts.

``model_shape``: the numbers of a model; ``machine``: the nodes, their GPUs, memory and disk; ``attention``: which
kernel; ``memory``: bytes per GPU and per node, of which too many are warned of; ``auto_values``: what ``auto`` keys
become; ``requirements``: what is refused.
"""
