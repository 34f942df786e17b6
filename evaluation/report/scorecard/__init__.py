"""The scorecard: the comparison of base and policy, and its presentation."""
