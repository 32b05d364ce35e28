"""Metadata in, plans out; messages in, snapshots out. Opens no data file.

Rooms:
    catalog/       tables by name, and who keeps their schemas and versions
    file_store     one table's metadata (FileStore)
    managers/      snapshots, schemas, tags, branches, consumers, changelogs
    manifests/     manifests and their lists, kept and folded together
    features       what is refused
    scan/          a moment, or what changed between two → splits
    write/         what a writer must know: sequence numbers, bucket counts, indexes
    commit/        messages → a snapshot: conflicts, retry, overwrite, abort
    compact/  maintenance/  row_change/   plans of other work
    segments/      the registry of files of others
    overflow       values a change of schema would lose
    rollback, clock
"""
