"""The subcommands of ``python -m training``.

``export`` writes the model of a checkpoint; ``preflight`` says whether this machine can train; ``track``
publishes a training in its MLflow and W&B runs. ``fidelity`` is no command: it writes a page of the documentation.
"""
