"""Compaction, maintenance, ANALYZE and rescaling of a table, and the shape they look at."""
