"""TableState: files, sizes and bookkeeping of a table, for the code that looks after it.

Light to import, as `table.table` is: each method imports what does its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.fileio.base import FileIO
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
    from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
    from paimon_assets.engine.spec.metadata.snapshot import Snapshot
    from paimon_assets.engine.spec.schema.schema import TableSchema
    from paimon_assets.engine.spec.types.literals import Internal
    from paimon_assets.engine.table.system.table_health import HealthLimits, TableHealth
    from paimon_assets.engine.table.system.table_shape import TableShape


class TableState:
    """Files, sizes and bookkeeping of one table (`Table.state`).

    Methods may also raise `StorageError`, if the storage failed, and `FormatError`, if a file is
    damaged.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store

    @property
    def created_ms(self) -> int:
        """The creation time of the table, epoch milliseconds; another one if created again.

        Cost:
            One small read, unless its schema was never changed.
        """
        return self._store.created_ms

    @property
    def file_io(self) -> FileIO:
        """The storage the table lies on."""
        return self._store.file_io

    def data_version(self, snapshot: Snapshot) -> str:
        """Return the name of the commit that last changed a row, as of a snapshot.

        It stays through compactions and statistics, also when that commit has expired, and never
        comes again for other rows. It begins with the id of the commit's snapshot, then `-`.
        """
        from paimon_assets.engine.control.commit.data_version import data_version

        return data_version(self._store, snapshot)

    def live_files(self, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
        """Return the live data files of a snapshot; of the newest one for None."""
        from paimon_assets.engine.control.scan.segment_scan import readable_files

        chosen = snapshot or self._store.snapshots.latest()
        return [] if chosen is None else readable_files(self._store, chosen)

    def physical_rows(self, snapshot: Snapshot | None = None) -> int:
        """Return the rows of a snapshot before merging, segments of all formats among them.

        Snapshots themselves do not count segments of text formats, which no manifest holds.
        """
        from paimon_assets.engine.control.scan.segment_scan import physical_rows

        chosen = snapshot or self._store.snapshots.latest()
        return 0 if chosen is None else physical_rows(self._store, chosen)

    def shape(self, snapshot: Snapshot | None = None) -> TableShape:
        """Return the sorted runs of a snapshot's buckets (of the newest), from metadata alone."""
        from paimon_assets.engine.table.system.table_shape import table_shape

        return table_shape(self._store, snapshot or self._store.snapshots.latest())

    def health(self, limits: HealthLimits | None = None) -> TableHealth:
        """Return how much upkeep the table needs, and why, from metadata alone."""
        from paimon_assets.engine.table.system.table_health import table_health

        return table_health(self._store, limits)

    def snapshot_path(self, snapshot: Snapshot) -> str:
        """Return the full path of a snapshot's file."""
        return self._store.paths.snapshot(snapshot.id)

    def file_path(self, entry: ManifestEntry) -> str:
        """Return the full path of a live file."""
        return self._store.file_path(entry)

    def partition_text(self, partition: bytes) -> dict[str, str]:
        """Return a partition's columns and values as people read them."""
        return dict(self._store.partitions.spec(partition))

    def partition_values(self, partition: bytes) -> dict[str, Internal]:
        """Return a partition's columns and internal values (`spec.types.literals`)."""
        values = self._store.partitions.values(partition)
        return dict(zip(self._store.schema.partition_keys, values, strict=True))

    def drop_audited(self, *, before_millis: int) -> list[str]:
        """Drop the branches of batches kept out before a time, return their names.

        Files that nothing else names go with them; see `control.maintenance.rejected_batches`.

        Raises:
            NotFoundError: A snapshot or tag that stays lacks a manifest; nothing was deleted.
            StorageError: A file could not be deleted; what is left are orphans.
        """
        from paimon_assets.engine.control.maintenance.rejected_batches import drop_rejected

        return list(drop_rejected(self._store, before_millis=before_millis).branches)

    def pointed_ledger(self, key: str) -> str | None:
        """Return the ledger that counts if no snapshot names one; see `control.ledgers`.

        Raises:
            FormatError: The pointer is damaged; names the file.
        """
        from paimon_assets.engine.control.ledgers import pointed_ledger

        return pointed_ledger(self._store, key)

    def change_made_since(
        self, changes: Sequence[SchemaChange], since_millis: int
    ) -> TableSchema | None:
        """Return the schema these changes made at or after a time, if they were made then.

        Raises:
            FormatError, StorageError: Metadata is damaged, or the storage failed.
        """
        from paimon_assets.engine.table.schema.schema_changes import change_made_since

        return change_made_since(self._store, changes, since_millis)
