"""TableState: what a table holds, as its metadata says; reads it, and changes nothing.

Light to import, as `table.table` is: each method imports what does its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.fileio.base import FileIO
    from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
    from paimon_assets.engine.spec.metadata.snapshot import Snapshot
    from paimon_assets.engine.spec.schema.schema import TableSchema
    from paimon_assets.engine.spec.types.literals import Internal
    from paimon_assets.engine.table.upkeep.table_shape import TableShape


class TableState:
    """The state of one table, opened with its newest schema.

    Methods may also raise `StorageError`, if the storage failed, and `FormatError`, if a file is
    damaged.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.schema!r})"

    @property
    def name(self) -> str:
        """`database.table`, or the path of a bare directory."""
        return self._store.label

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._store.table_path

    @property
    def created_ms(self) -> int:
        """When the table was created, epoch milliseconds; one made anew has another.

        Cost:
            One small read, unless its schema was never changed.
        """
        return self._store.created_ms

    @property
    def schema(self) -> TableSchema:
        """The newest schema when the table was opened."""
        return self._store.schema

    @property
    def file_io(self) -> FileIO:
        """The storage the table lies on."""
        return self._store.file_io

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None if nothing was committed yet."""
        return self._store.snapshots.latest()

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """Return one snapshot; the newest for None."""
        if snapshot_id is None:
            return self.latest_snapshot()
        return self._store.snapshots.snapshot(snapshot_id)

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots that have not expired, oldest first. Cost: reads each."""
        return list(self._store.snapshots.all())

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, oldest first."""
        return [self._store.schemas.schema(number) for number in self._store.schemas.list_ids()]

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

        chosen = snapshot or self.latest_snapshot()
        return [] if chosen is None else readable_files(self._store, chosen)

    def physical_rows(self, snapshot: Snapshot | None = None) -> int:
        """Return the rows of a snapshot before merging, segments of all formats among them.

        Snapshots themselves do not count segments of text formats, which no manifest holds.
        """
        from paimon_assets.engine.control.scan.segment_scan import physical_rows

        chosen = snapshot or self.latest_snapshot()
        return 0 if chosen is None else physical_rows(self._store, chosen)

    def shape(self, snapshot: Snapshot | None = None) -> TableShape:
        """Return the sorted runs of a snapshot's buckets (of the newest), from metadata alone."""
        from paimon_assets.engine.table.upkeep.table_shape import table_shape

        return table_shape(self._store, snapshot or self.latest_snapshot())

    def file_path(self, entry: ManifestEntry) -> str:
        """Return the full path of a live file."""
        return self._store.file_path(entry)

    def partition_text(self, partition: bytes) -> dict[str, str]:
        """Return a partition's columns and values as people read them."""
        return dict(self._store.partitions.spec(partition))

    def partition_values(self, partition: bytes) -> dict[str, Internal]:
        """Return a partition's columns and internal values (`spec.types.literals`)."""
        values = self._store.partitions.values(partition)
        return dict(zip(self.schema.partition_keys, values, strict=True))
