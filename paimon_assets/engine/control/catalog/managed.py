"""CatalogEnvironment: the keeper of a table's schemas and versions, as its store uses it.

    no catalog        the table's directory keeps both: a bare path, a catalog of directories
    no versions       the catalog keeps the schemas, the directory the versions: an external table
    both              the catalog keeps both: a managed table

A store chooses its managers by it, so nothing above asks which of the three it is. The catalog
names the newest, lists, and changes; files are read by id, from the table's directory.
Source: `org.apache.paimon.table.CatalogEnvironment`, `org.apache.paimon.catalog.SnapshotCommit`,
`org.apache.paimon.catalog.SnapshotLoader`, `org.apache.paimon.utils.CatalogBranchManager`.
"""

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog import catalog as catalogs
from paimon_assets.engine.control.managers.branch_manager import BranchManager
from paimon_assets.engine.control.managers.numbered_files import prefixed_files
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.managers.tag_manager import ConsumerManager, TagManager
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.evolution.schema_evolution import changes_nothing
from paimon_assets.engine.spec.metadata.snapshot import Snapshot, Tag
from paimon_assets.engine.spec.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)


class CatalogEnvironment(Value):
    """The catalog that opened a table, as which name, and its answer."""

    catalog: catalogs.Catalog
    identifier: catalogs.Identifier
    loaded: catalogs.LoadedTable


class ManagedBranch(Value):
    """A branch of a table whose catalog keeps its versions."""

    catalog: catalogs.VersionedCatalog
    identifier: catalogs.Identifier
    uuid: str

    def at_branch(self, branch: str) -> Self:
        return replace(self, identifier=self.identifier.at_branch(branch))

    def refusal(self, operation: str, way_out: str) -> errors.UnsupportedFeatureError:
        """Return the error for an operation that catalogs have no request for."""
        return errors.UnsupportedFeatureError(
            f"Table '{self.identifier}' is managed by its catalog, which cannot {operation};"
            f" {way_out}.",
            kind="server-managed",
            table=str(self.identifier),
        )


class CatalogSchemaManager(SchemaManager):
    """Schemas of a table whose catalog changes them."""

    def __init__(
        self,
        opened: CatalogEnvironment,
        file_io: FileIO,
        paths: TablePaths,
        *,
        snapshots: SnapshotManager,
    ) -> None:
        super().__init__(file_io, paths, snapshots=snapshots)
        self._catalog, self._uuid = opened.catalog, opened.loaded.uuid
        self._identifier = opened.identifier.at_branch(paths.branch)

    def list_ids(self) -> list[int]:
        newest = self.latest()
        if newest is None:
            return []
        return sorted({*(n for n in super().list_ids() if n < newest.id), newest.id})

    def latest(self) -> TableSchema | None:
        loaded = self._load()
        return None if loaded is None else self.schema(loaded.schema.id)

    def is_same(self, known: TableSchema) -> bool:
        """Whether the table is still the one that was opened. Cost: one request."""
        return self._load() is not None

    def latest_id(self, known: TableSchema) -> int:
        """Return the newest id. Cost: one request."""
        loaded = self._load()
        if loaded is None:
            raise self.not_the_same(known)
        return loaded.schema.id

    def commit_changes(
        self,
        changes: Sequence[SchemaChange],
        *,
        time_millis: int,
        base: TableSchema | None = None,
        is_unwritten: bool = False,
    ) -> TableSchema:
        """Let the catalog change the newest schema; see `SchemaManager.commit_changes`.

        No request names a base: a concurrent change is kept, and a warning names it.
        """
        new = self.evolve(changes, time_millis=time_millis, is_unwritten=is_unwritten)
        newest = self._base_of(new, base)
        if changes_nothing(newest, new):
            return newest
        try:
            made = self._catalog.alter_table(self._identifier, changes)
        except errors.CommitUnknownError:
            stored = None
            with suppress(errors.PaimonError):
                stored = self.latest()
            if stored is None or stored.id != new.id or not changes_nothing(stored, new):
                raise
            made = stored
        if base is not None and made.id != new.id:
            logger.warning(
                "table %s: it changed after changes were checked against schema %d; with these it "
                "is at schema %d",
                self._identifier,
                base.id,
                made.id,
            )
        self._warn_of_unknown(set(made.options) - set(newest.options))
        return made

    def _load(self) -> catalogs.LoadedTable | None:
        """Return the table, None if it was dropped, renamed or created again."""
        try:
            loaded = self._catalog.load_table(self._identifier)
        except errors.NotFoundError:
            return None
        return loaded if loaded.uuid == self._uuid else None


class CatalogTagManager(TagManager):
    """Tags of a branch whose catalog keeps them."""

    def __init__(self, managed: ManagedBranch, file_io: FileIO, paths: TablePaths) -> None:
        super().__init__(file_io, paths)
        self._managed = managed

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained: dt.timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> Tag:
        self._new(name, snapshot, time_retained)
        catalog, identifier = self._managed.catalog, self._managed.identifier
        try:
            catalog.create_tag(identifier, name, snapshot.id, time_retained=time_retained)
        except errors.AlreadyExistsError:
            if ignore_if_exists:
                return self.get(name)
            raise
        except errors.CommitUnknownError:
            tag = None
            with suppress(errors.PaimonError):
                tag = self.get_or_none(name)
            if tag is None or tag.snapshot != snapshot:
                raise
            return tag
        made = self.get(name)
        if made.snapshot.delta_manifest_list != snapshot.delta_manifest_list:
            catalog.delete_tag(identifier, name)  # ids are used again after a rollback
            raise self._expiry_error(name, snapshot)
        return made

    def hold(self, name: str, snapshot: Snapshot) -> None:
        self.create(name, snapshot, ignore_if_exists=True)

    def replace(
        self, name: str, snapshot: Snapshot, *, time_retained: dt.timedelta | None = None
    ) -> Tag:
        """Refuse: no request does it in one step."""
        raise self._managed.refusal("let a tag name another snapshot", "make another tag")

    def rename(self, name: str, new_name: str) -> Tag:
        """Refuse: no request does it in one step."""
        raise self._managed.refusal("rename a tag", "make another one and delete this")

    @contextmanager
    def undoing(self, name: str = "undo") -> Iterator[None]:
        """Mark nothing: an erasure refuses the table."""
        yield

    def delete(self, name: str) -> Tag:
        tag = self.get(name)
        self._managed.catalog.delete_tag(self._managed.identifier, name)
        return tag

    def get_or_none(self, name: str) -> Tag | None:
        try:
            return self._managed.catalog.get_tag(self._managed.identifier, name)
        except errors.NotFoundError as error:
            if error.kind != "tag-not-found":
                raise
            return None

    def list(self) -> list[Tag]:
        """Return all tags, by name. Cost: a request for the names, and one for each."""
        names = self._managed.catalog.list_tags(self._managed.identifier)
        return [tag for name in names if (tag := self.get_or_none(name)) is not None]


class CatalogBranchManager(BranchManager):
    """Branches of a table whose catalog keeps them."""

    def __init__(self, managed: ManagedBranch, file_io: FileIO, paths: TablePaths) -> None:
        super().__init__(file_io, paths)
        self._managed = managed

    def list(self) -> dict[str, int]:
        """Return branch → epoch milliseconds of its last change, 0 if its files do not say."""
        files = prefixed_files(self._file_io, self._paths.branches_directory, BRANCH_PREFIX)
        names = self._managed.catalog.list_branches(self._managed.identifier)
        return {name: files[name].modified_ms if name in files else 0 for name in names}

    def exists(self, name: str) -> bool:
        return name == MAIN_BRANCH or name in self._managed.catalog.list_branches(
            self._managed.identifier
        )

    def delete(self, name: str) -> None:
        """Delete a branch; its data files stay until a cleaning finds them."""
        self._existing(name)
        self._managed.catalog.drop_branch(self._managed.identifier, name)

    def _make(self, name: str, tag: str | None, snapshot_id: int | None) -> None:
        if snapshot_id is not None:
            raise self._managed.refusal(
                "begin a branch with a snapshot", "give the snapshot a tag, and begin with the tag"
            )
        self._managed.catalog.create_branch(self._managed.identifier, name, from_tag=tag)

    def _forward(self, name: str, *, keeps_main: bool) -> Snapshot:
        catalog, main = self._managed.catalog, self._managed.identifier
        if catalog.load_snapshot(main.at_branch(name)) is None:
            raise self._empty(name)
        catalog.fast_forward(main, name, keeps_main=keeps_main)
        newest = catalog.load_snapshot(main)
        if newest is None:
            raise self._empty(name)
        return newest


class CatalogConsumerManager(ConsumerManager):
    """Consumers of a branch whose catalog keeps them."""

    def __init__(self, managed: ManagedBranch, file_io: FileIO, paths: TablePaths) -> None:
        super().__init__(file_io, paths)
        self._managed = managed

    def next_snapshot(self, consumer_id: str) -> int | None:
        self._path(consumer_id)
        return self.list().get(consumer_id)

    def list(self) -> dict[str, int]:
        return self._managed.catalog.list_consumers(self._managed.identifier)

    def delete(self, consumer_id: str) -> None:
        self._path(consumer_id)
        self._managed.catalog.reset_consumer(self._managed.identifier, consumer_id, None)

    def _write(self, consumer_id: str, next_snapshot: int) -> None:
        self._managed.catalog.reset_consumer(self._managed.identifier, consumer_id, next_snapshot)
