"""Read files of traces into rows of one form."""
