"""One offline HTML page of rows with long texts, used by targets, training and evaluation."""
