"""Deletes files that no reader needs any more, and nothing else.

Concept → modules:
    how long to keep                 retention
    what a snapshot needs            references, concurrent_changes
    snapshots and their files        expire_snapshots, expiry_plan
    changelogs without snapshot      expire_changelogs
    tags, by hand and by period      tag_files, auto_tags
    old partitions                   expire_partitions
    segments and rejected batches    removed_segments, rejected_batches
    manifests                        compact_manifests
    files without an owner           orphan_files

Two rules hold for all that deletes. A file goes after the last snapshot that needs it, so a crash
leaves orphans and never a snapshot with a hole. An external file (`is_external`) is never deleted.
"""
