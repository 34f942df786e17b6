"""Compare two forms exactly: values, groups, relations and sets of numbers."""
