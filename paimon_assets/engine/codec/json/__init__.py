"""Metadata files in JSON: snapshots, schemas, tags, statistics, segments; unknown fields are kept.

`record_check` looks at JSON from outside before a reader does.
"""
