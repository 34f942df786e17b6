"""Parquet files that users give: read in bounds, or refused with one message."""
