"""Schemas, declared and stored: ids, keys, options."""
