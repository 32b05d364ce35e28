"""Compaction, maintenance, ANALYZE, rescaling, and the shape they look at."""
