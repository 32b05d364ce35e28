"""How many rows went with files that a commit took out of a table."""

from collections.abc import Sequence

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import deletion_files
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot


def dropped_rows(
    store: FileStore, snapshot: Snapshot, deleted: Sequence[ManifestEntry]
) -> int | None:
    """Return the live rows of files before a snapshot deleted them; None if it is unknown."""
    before = store.snapshots.snapshot_or_none(snapshot.id - 1)
    if store.schema.has_primary_key or before is None:
        return None
    vectors = deletion_files(store, before, {(entry.partition, entry.bucket) for entry in deleted})
    rows = 0
    for entry in deleted:
        vector = vectors.get((entry.partition, entry.bucket, entry.file.file_name))
        if vector is not None and vector.cardinality is None:
            return None
        rows += entry.file.row_count - ((vector.cardinality or 0) if vector else 0)
    return rows
