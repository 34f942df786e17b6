"""The one grader of rewards, targets and benchmarks, and the search for benchmark problems in training data."""
