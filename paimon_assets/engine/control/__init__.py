"""Metadata in, plans out; messages in, snapshots out. Opens no data file.

Concept → files:
    tables by name          catalog (Catalog, Identifier), filesystem_catalog
    one table's metadata    file_store (FileStore), schema_manager, snapshot_manager,
                            partition_values, manifest_store (and its cache)
    what is refused         features
    reading                 scan/ (time_travel, incremental, file_store_scan, …)
    a table's history       tag_manager, branch_manager, consumer_manager, changelog_manager,
                            rollback
    before writing          planning (sequence numbers, bucket counts), commit_history
    committing              commit/ (file_store_commit, overwrite, checks, retry, abort, …),
                            manifest_merge
    compacting              compact/ (plan, keyed, append, affected)
    time as an argument     clock
"""
