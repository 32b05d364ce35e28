"""Schemas, declared and stored: ids, keys, options; and system columns (`special_fields`)."""
