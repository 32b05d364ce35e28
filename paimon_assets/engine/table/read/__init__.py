"""Reads of a table: columns, filter and a moment, or what changed between two."""
