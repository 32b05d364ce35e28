"""Compaction, maintenance, ANALYZE and rescaling of a table."""
