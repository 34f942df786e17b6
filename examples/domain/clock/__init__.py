"""A domain: times of day, with a verifier and a profile."""
