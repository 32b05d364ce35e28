"""CatalogEnvironment: who keeps a table's schemas and versions, as its store sees it.

    no catalog        the table's directory keeps both: a bare path, a catalog of directories
    no versions       the catalog keeps the schemas, the directory the versions: an external table
    both              the catalog keeps both: a managed table

It hands out the managers that a store works with, so nothing above asks which of the three it is.
Source: `org.apache.paimon.table.CatalogEnvironment`, `org.apache.paimon.catalog.SnapshotCommit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.catalog.catalog import (
    Catalog,
    Identifier,
    LoadedTable,
    VersionedCatalog,
)
from paimon_assets.engine.control.catalog.managed import (
    CatalogBranchManager,
    CatalogConsumerManager,
    CatalogSchemaManager,
    CatalogSnapshotLoader,
    CatalogTagManager,
    ManagedBranch,
)
from paimon_assets.engine.control.managers.branch_manager import BranchManager
from paimon_assets.engine.control.managers.consumer_manager import ConsumerManager
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.managers.tag_manager import TagManager
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.partition_statistics import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import TablePaths


class SnapshotCommit(Protocol):
    """The last step of a commit: a snapshot becomes the table's newest."""

    def commit(
        self,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Publish a snapshot; nobody sees it before, everybody after.

        Args:
            snapshot: What it names is written.
            base_uuid: Of the snapshot it is built on, None if it has none or there is none.
            statistics: What it changes in each partition; empty where no catalog wants it.

        Returns:
            True if it was published. False if the id was taken, perhaps by this very snapshot in an
            earlier call whose answer was lost: the caller looks.

        Raises:
            CommitUnknownError: Whether it was published is unknown; call again, as the same bytes.
            PaimonError: Surely nothing was published by this call.
        """
        ...


@dataclass(frozen=True, slots=True)
class PublishingSnapshotCommit:
    """Publishes the snapshot's file, if there is none of its id."""

    file_io: FileIO
    paths: TablePaths

    def commit(
        self,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Publish the file; what it is built on is looked at by the caller, afterwards."""
        return self.file_io.publish(self.paths.snapshot(snapshot.id), snapshot_to_json(snapshot))


@dataclass(frozen=True, slots=True)
class CatalogSnapshotCommit:
    """Hands the snapshot to the catalog, which judges what it is built on and publishes it."""

    catalog: VersionedCatalog
    identifier: Identifier
    table_uuid: str

    def commit(
        self,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Ask the catalog."""
        return self.catalog.commit_snapshot(
            self.identifier,
            self.table_uuid,
            snapshot,
            base_uuid=base_uuid,
            statistics=statistics,
        )


@dataclass(frozen=True, kw_only=True)
class CatalogEnvironment:
    """The catalog of a table, None where the table's directory is all there is."""

    catalog: Catalog | None = None
    identifier: Identifier | None = None
    """The table's name in the catalog; its branch is the one it was loaded as."""
    loaded: LoadedTable | None = None
    """What the catalog said when the table was opened."""

    def of_branch(self, branch: str) -> ManagedBranch | None:
        """Return a managed table's branch, None if the table's directory keeps its versions."""
        return None if self._managed is None else self._managed.at_branch(branch)

    @cached_property
    def _managed(self) -> ManagedBranch | None:
        loaded = self.loaded
        if loaded is None or loaded.versions is None or self.identifier is None:
            return None
        return ManagedBranch(
            catalog=loaded.versions, identifier=self.identifier, uuid=loaded.uuid or ""
        )

    def schemas(self, file_io: FileIO, paths: TablePaths) -> SchemaManager:
        """Return the schemas of a branch."""
        if self.catalog is None or self.identifier is None or self.loaded is None:
            return SchemaManager(file_io, paths)
        return CatalogSchemaManager(
            self.catalog,
            self.identifier.at_branch(paths.branch),
            self.loaded,
            file_io,
            paths,
            snapshots=self.snapshots(file_io, paths),
        )

    def snapshots(self, file_io: FileIO, paths: TablePaths) -> SnapshotManager:
        """Return the snapshots of a branch."""
        managed = self.of_branch(paths.branch)
        loader = None if managed is None else CatalogSnapshotLoader(managed)
        return SnapshotManager(file_io, paths, loader=loader)

    def snapshot_commit(self, file_io: FileIO, paths: TablePaths) -> SnapshotCommit:
        """Return what publishes snapshots of a branch."""
        managed = self.of_branch(paths.branch)
        if managed is None:
            return PublishingSnapshotCommit(file_io, paths)
        return CatalogSnapshotCommit(managed.catalog, managed.identifier, managed.uuid)

    def tags(self, file_io: FileIO, paths: TablePaths) -> TagManager:
        """Return the tags of a branch."""
        managed = self.of_branch(paths.branch)
        if managed is None:
            return TagManager(file_io, paths)
        return CatalogTagManager(managed, file_io, paths)

    def branches(self, file_io: FileIO, paths: TablePaths) -> BranchManager:
        """Return the branches made from a branch."""
        managed = self.of_branch(paths.branch)
        if managed is None:
            return BranchManager(file_io, paths)
        return CatalogBranchManager(managed, file_io, paths)

    def consumers(self, file_io: FileIO, paths: TablePaths) -> ConsumerManager:
        """Return the consumers of a branch."""
        managed = self.of_branch(paths.branch)
        if managed is None:
            return ConsumerManager(file_io, paths)
        return CatalogConsumerManager(managed, file_io, paths)
