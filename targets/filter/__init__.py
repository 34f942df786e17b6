"""Every check of one trace alone."""
