"""The other commands of ``python -m training``.

``export`` writes the model of a checkpoint; ``preflight`` says whether this machine can train.
"""
