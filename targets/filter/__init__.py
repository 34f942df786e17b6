"""What is decided about one trace alone: the filters, and where they run."""
