"""The assets of experiments: one run per recipe and seed, and their comparison."""
