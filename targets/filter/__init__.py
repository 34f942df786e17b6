"""Per-trace filters, and the cache of their decisions."""
