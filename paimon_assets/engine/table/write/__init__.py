"""Writes of a table: rows, row changes, staged batches, truncation."""
