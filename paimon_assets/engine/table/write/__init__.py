"""Writes of a table: rows, row changes, staged batches, truncation.

Concept → modules:
    rows, truncation, partitions dropped    write_builder
    delete, update, merge                   row_change
    write-audit-publish                     staged_batch
"""
