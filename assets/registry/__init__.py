"""The assets of the registry: the champion, and the retention of former policies."""
