"""One offline HTML page of rows with long texts; targets, training and evaluation say what their rows are."""
