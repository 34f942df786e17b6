"""One training run, from its request to its policy folder."""
