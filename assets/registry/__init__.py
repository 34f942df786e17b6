"""The assets of the registry: the champion, and what is kept of former policies."""
