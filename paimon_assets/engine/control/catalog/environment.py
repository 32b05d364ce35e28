"""CatalogEnvironment: the keeper of a table's schemas and versions, as its store uses it.

    no catalog        the table's directory keeps both: a bare path, a catalog of directories
    no versions       the catalog keeps the schemas, the directory the versions: an external table
    both              the catalog keeps both: a managed table

A store makes the managers it works with by it, so nothing above asks which of the three it is.
Source: `org.apache.paimon.table.CatalogEnvironment`, `org.apache.paimon.catalog.SnapshotCommit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier, LoadedTable
from paimon_assets.engine.control.catalog.managed import ManagedBranch
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.partition_statistics import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import TablePaths


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

    def publish(
        self,
        file_io: FileIO,
        paths: TablePaths,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Publish a snapshot of a branch: the last step of a commit.

        Nobody sees it before, everybody after. What it names is written. A catalog judges what it
        is built on; without one the caller looks at that, afterwards.
        """
        managed = self.of_branch(paths.branch)
        if managed is None:
            return file_io.publish(paths.snapshot(snapshot.id), snapshot_to_json(snapshot))
        return managed.catalog.commit_snapshot(
            managed.identifier, managed.uuid, snapshot, base_uuid=base_uuid, statistics=statistics
        )
