"""Tags of a table, and TableState: its files, sizes and bookkeeping, for code that looks after it.

Light to import, as `table.table` is: each method imports its modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    import datetime as dt

    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.control.maintenance.tag_files import DeletedTag
    from paimon_assets.engine.fileio.base import FileIO
    from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
    from paimon_assets.engine.spec.metadata.snapshot import Tag
    from paimon_assets.engine.spec.predicate.predicate import Predicate
    from paimon_assets.engine.spec.types.literals import Internal
    from paimon_assets.engine.table.system.table_health import TableShape


class Tags:
    """The tags of a table."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def create(
        self,
        name: str,
        snapshot: Snapshot | int | None = None,
        *,
        time_retained: dt.timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> Tag:
        """Give a snapshot a name.

        Args:
            name: The tag's name.
            snapshot: The snapshot, or its id; the newest by default.
            time_retained: How long the tag is kept; for ever by default.
            ignore_if_exists: Whether a tag of this name is left as it is and returned.

        Raises:
            NotFoundError: There is no such snapshot, or none at all.
            AlreadyExistsError: There is a tag of this name.
            InvalidInputError: The name or the time is not valid.
            CommitUnknownError: The storage's answer was lost; look whether the tag is there.
        """
        tag = self._store.tags.create(
            name,
            self._snapshot(snapshot),
            time_retained=time_retained,
            ignore_if_exists=ignore_if_exists,
        )
        return self._follow_tag(tag)

    def replace(
        self,
        name: str,
        snapshot: Snapshot | int | None = None,
        *,
        time_retained: dt.timedelta | None = None,
    ) -> Tag:
        """Let a tag name another snapshot; the newest by default.

        Raises:
            NotFoundError: There is no such tag or snapshot.
            InvalidInputError: The time is not above zero.
        """
        to = self._snapshot(snapshot)
        tag = self._store.tags.replace(name, to, time_retained=time_retained)
        return self._follow_tag(tag)

    def rename(self, name: str, new_name: str) -> Tag:
        """Give a tag another name; after a crash it may have both.

        Raises:
            NotFoundError: There is no such tag.
            AlreadyExistsError: There is a tag of the new name.
            InvalidInputError: The new name is not valid.
        """
        tag = self._store.tags.rename(name, new_name)
        return self._follow_tag(tag)

    def delete(self, name: str) -> DeletedTag:
        """Delete a tag, with the files that only it kept.

        Raises:
            NotFoundError: There is no tag of this name.
            InvalidInputError: The tag keeps segment files from other engines (kind `tag-hold`).
        """
        from paimon_assets.engine.control.maintenance.tag_files import delete_tag

        return delete_tag(self._store, name)

    def _follow_tag(self, tag: Tag) -> Tag:
        """Return a tag that the add-ons of the table have followed."""
        from paimon_assets.engine.control.listeners import follow_change

        follow_change(self._store)
        return tag

    def get(self, name: str) -> Tag:
        """Return a tag.

        Raises:
            NotFoundError: There is no tag of this name.
        """
        return self._store.tags.get(name)

    def get_or_none(self, name: str) -> Tag | None:
        """Return a tag, None if there is no such tag."""
        return self._store.tags.get_or_none(name)

    def list(self) -> list[Tag]:
        """Return all tags, by name. Cost: one listing, and each is read."""
        return self._store.tags.list()

    def _snapshot(self, snapshot: Snapshot | int | None) -> Snapshot:
        if isinstance(snapshot, Snapshot):
            return snapshot
        if snapshot is not None:
            return self._store.snapshots.snapshot(snapshot)
        newest = self._store.snapshots.latest()
        if newest is None:
            message = f"Table '{self._store.label}' has no snapshot to tag yet."
            raise NotFoundError(message, kind="snapshot-not-found", table=self._store.label)
        return newest


class TableState:
    """Files, sizes and bookkeeping of one table (`Table.state`).

    Methods may also raise `StorageError`, if the storage failed, and `FormatError`, if a file is
    damaged.
    """

    def __init__(self, store: FileStore) -> None:
        self.store = store

    @property
    def file_io(self) -> FileIO:
        """The storage of the table."""
        return self.store.file_io

    def data_version(self, snapshot: Snapshot) -> str:
        """Return the name of the commit that last changed a row, as of a snapshot.

        It stays through compactions and statistics, also when that commit has expired, and is never
        used again for other rows. It begins with the id of the commit's snapshot, then `-`.
        """
        from paimon_assets.engine.control.commit.changes import data_version

        return data_version(self.store, snapshot)

    def live_files(
        self, snapshot: Snapshot | None = None, where: Predicate | None = None
    ) -> list[ManifestEntry]:
        """Return the live data files of a snapshot (of the newest).

        With `where`, those that may hold rows that pass.
        """
        from paimon_assets.engine.control.scan.segment_scan import readable_files

        chosen = snapshot or self.store.snapshots.latest()
        if chosen is None:
            return []
        return readable_files(self.store, chosen, None if where is None else self._bind(where))

    def iceberg_behind(self) -> int | None:
        """Return how many commits readers of Iceberg do not see in full; None without metadata."""
        from paimon_assets.engine.control.listeners import behind

        return behind(self.store)

    def physical_rows(self, snapshot: Snapshot | None = None) -> int:
        """Return the rows of a snapshot before merging, segments of all formats among them."""
        from paimon_assets.engine.control.scan.segment_scan import physical_rows

        chosen = snapshot or self.store.snapshots.latest()
        return 0 if chosen is None else physical_rows(self.store, chosen)

    def shape(self, snapshot: Snapshot | None = None, where: Predicate | None = None) -> TableShape:
        """Return the sorted runs of a snapshot's buckets (of the newest), from metadata alone.

        With `where`, of the files that may hold rows that pass.
        """
        from paimon_assets.engine.table.system.table_health import table_shape

        chosen = snapshot or self.store.snapshots.latest()
        return table_shape(self.store, chosen, None if where is None else self._bind(where))

    def _bind(self, where: Predicate) -> Predicate:
        from paimon_assets.engine.spec.predicate.predicate import bind

        return bind(where, self.store.schema)

    def file_path(self, entry: ManifestEntry) -> str:
        """Return the full path of a live file."""
        return self.store.file_path(entry)

    def partition_text(self, partition: bytes) -> dict[str, str]:
        """Return a partition's columns and values as people read them."""
        return dict(self.store.partitions.spec(partition))

    def partition_values(self, partition: bytes) -> dict[str, Internal]:
        """Return a partition's columns and internal values (`spec.types.literals`)."""
        values = self.store.partitions.values(partition)
        return dict(zip(self.store.schema.partition_keys, values, strict=True))
