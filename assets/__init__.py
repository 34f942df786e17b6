"""The asset graph, one module per stage. An asset decides what to run, where to put the result and what the UI shows.

The packages below (``targets``, ``training``, ``evaluation``) compute; ``shared`` has what the assets have in common.
"""
