"""Deletes files that no reader needs any more.

Concept → modules:
    files that a snapshot needs      references
    snapshots and changelogs         expire_snapshots
    tags, by hand and by period      tag_files
    old partitions, manifests        expire_partitions
    segments                         removed_segments
    orphans and rejected batches     orphan_files

Two rules hold for all deletions. A file is deleted after the last snapshot that needs it, so a
crash leaves orphans and never a snapshot with a hole. An external file (`is_external`) is never
deleted.
"""
