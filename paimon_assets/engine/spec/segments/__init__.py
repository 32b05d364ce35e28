"""Segments as values: files of others that are part of a table where they lie."""
