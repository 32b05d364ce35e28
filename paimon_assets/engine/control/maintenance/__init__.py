"""What keeps a table healthy: files nobody needs any more go, and nothing else does.

Concept → files:
    how long to keep             retention (pure)
    what a snapshot needs        references
    snapshots and their files    expire_snapshots, expiry_plan
    changelogs without snapshot  expire_changelogs
    tags, by hand and by period  tag_files, auto_tags
    old partitions               expire_partitions, partition_time
    manifests                    compact_manifests
    files without an owner       orphan_files

Two rules hold for all that deletes. A file goes after the last snapshot that needs it, so a crash
leaves orphans and never a snapshot with a hole. A file of somebody else (`is_foreign`) never goes.
"""
