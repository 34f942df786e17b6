"""The benchmarks: suites as YAML, and the files that their problems come from."""
