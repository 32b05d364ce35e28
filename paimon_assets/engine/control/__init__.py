"""Metadata in, plans out; messages in, snapshots out. Opens no data file.

Concept → files:
    tables by name          catalog (Catalog, Identifier), filesystem_catalog
    one table's metadata    file_store (FileStore), schema_manager, snapshot_manager,
                            partition_values, manifest_store (and its cache)
    what is refused         features
    reading                 scan/ (time_travel, file_store_scan, bucket_pruning, file_pruning,
                            split_generator)
    before writing          planning (sequence numbers, bucket counts), commit_history
    committing              commit/ (file_store_commit, changes, conflict, retry, abort),
                            manifest_merge
    time as an argument     clock
"""
