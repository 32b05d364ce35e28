"""Writes of a table: rows, row changes, staged batches, truncation.

Concept → modules:
    rows                         write_builder
    delete, update, merge        row_change, merge_source
    write-audit-publish          staged_batch
    truncate, drop partitions    table_commit
    what all commits share       commit_builder
"""
