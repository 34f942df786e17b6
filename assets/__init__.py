"""The asset graph, one module per stage. Assets decide what to run, where its result lies and what the UI shows of it.

The packages below (``targets``, ``training``, ``evaluation``) compute; ``shared`` has what the assets have in common.
"""
