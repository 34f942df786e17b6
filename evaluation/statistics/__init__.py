"""Scores with their uncertainty: problems are independent of each other, the samples of one problem are not."""
