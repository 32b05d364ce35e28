"""Table: one Paimon table, as a person holds it. Delegates everything."""

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.manifest import ManifestEntry
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.snapshot import Snapshot
from paimon_assets.engine.table.read_builder import ReadBuilder
from paimon_assets.engine.table.write_builder import WriteBuilder


class Table:
    """One table, opened with its newest schema."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    @property
    def name(self) -> str:
        """`database.table`, or the path of a bare directory."""
        return self._store.label

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._store.table_path

    @property
    def schema(self) -> TableSchema:
        """The newest schema when the table was opened."""
        return self._store.schema

    @property
    def file_io(self) -> FileIO:
        """The storage the table lies on."""
        return self._store.file_io

    def new_read_builder(self) -> ReadBuilder:
        """Begin to describe a read."""
        return ReadBuilder(store=self._store)

    def new_write_builder(self) -> WriteBuilder:
        """Begin to describe a write."""
        return WriteBuilder(store=self._store)

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None if nothing was committed yet."""
        return self._store.snapshots.latest()

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """Return one snapshot; the newest for None.

        Raises:
            NotFoundError: No snapshot of this id.
        """
        if snapshot_id is None:
            return self.latest_snapshot()
        return self._store.snapshots.snapshot(snapshot_id)

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots that have not expired, oldest first. Cost: reads each."""
        manager = self._store.snapshots
        found = (manager.snapshot_or_none(number) for number in manager.list_ids())
        return [snapshot for snapshot in found if snapshot is not None]

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, oldest first."""
        manager = self._store.schemas
        return [manager.schema(number) for number in manager.list_ids()]

    def live_files(self, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
        """Return the live data files of a snapshot; of the newest one for None."""
        chosen = snapshot or self.latest_snapshot()
        return [] if chosen is None else FileStoreScan(self._store).live_files(chosen)

    def file_path(self, entry: ManifestEntry) -> str:
        """Return the full path of a live file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        directory = self._store.partitions.bucket_path(
            self._store.paths, entry.partition, entry.bucket
        )
        return f"{directory}/{entry.file.file_name}"

    def partition_text(self, partition: bytes) -> dict[str, str]:
        """Return a partition's columns and values as people read them."""
        return dict(self._store.partitions.spec(partition))
