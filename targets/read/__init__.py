"""Files of traces in, rows of one form out."""
