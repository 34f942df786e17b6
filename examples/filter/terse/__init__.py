"""A filter of targets and a benchmark."""
