"""Compaction, maintenance, ANALYZE and rescaling of a table; rows erased from its history."""
