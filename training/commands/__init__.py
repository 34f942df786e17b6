"""The longer subcommands of ``python -m training``.

``examine`` looks for known faults before a training; ``rollout_browser`` writes the samples of one on a page.
"""
