"""``python -m training preflight``: whether this machine can train. ``machine`` looks at it, ``trial`` trains."""
