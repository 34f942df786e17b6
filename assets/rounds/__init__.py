"""The assets of rounds: a teacher is asked about what the last policy does not solve, and the policy trains on."""
