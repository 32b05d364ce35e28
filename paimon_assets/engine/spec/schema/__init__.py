"""Schemas: declared and stored, with ids, keys, options and system columns."""
