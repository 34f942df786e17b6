"""Scores with their uncertainty: problems are independent of each other, samples of one problem are not."""
