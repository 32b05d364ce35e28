"""FileStore: the metadata of one table: its path, its schema, and the readers of its parts.

Source: `org.apache.paimon.FileStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.features import check_key_types
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import ChangelogManager, SnapshotManager
from paimon_assets.engine.control.manifests import ManifestStore, PartitionValues
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import (
    SCHEMA_PROPERTY,
    PartitionStatistics,
    Snapshot,
)
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_rules import first_retyped
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.control.catalog.managed import CatalogEnvironment, ManagedBranch
    from paimon_assets.engine.control.managers.branch_manager import BranchManager
    from paimon_assets.engine.control.managers.tag_manager import ConsumerManager, TagManager


_SAME_TABLES: dict[tuple[str | None, ...], None] = {}
"""(scheme, schema folder, schema of a handle, schema or list that a snapshot names), as seen."""
_MOST_REMEMBERED = 10_000


class FileStore(Value, dict=True, hidden=("environment", "stored")):
    """One table as the control plane sees it."""

    file_io: FileIO
    table_path: str
    """The table's directory, without a trailing slash."""
    schema: TableSchema
    """The schema of reads and writes, with dynamic options."""
    name: str = ""
    """`database.table` for messages; the path if empty."""
    environment: CatalogEnvironment | None = None
    """None if the table's directory is all there is."""
    stored: Mapping[str, TableSchema] = field(default_factory=dict)
    """Branch → its newest schema, as it was just read."""
    is_planned: bool = False
    """Whether the table does not exist: a dry run shows it as it would be."""

    @classmethod
    def open(
        cls,
        file_io: FileIO,
        table_path: str,
        *,
        options: Mapping[str, str] | None = None,
        name: str = "",
    ) -> Self:
        """Open the table in a directory with its newest schema."""
        path = table_path.rstrip("/")
        branch = opt.Options(options or {}).get(opt.BRANCH)
        stored = SchemaManager(file_io, TablePaths(table=path, branch=branch)).existing(name)
        schema = stored.with_dynamic_options(options) if options else stored
        known = {branch: stored}
        return cls(file_io=file_io, table_path=path, schema=schema, name=name, stored=known)

    @classmethod
    def load(
        cls,
        catalog: Catalog,
        identifier: Identifier,
        *,
        options: Mapping[str, str] | None = None,
        name: str = "",
        newest: TableSchema | None = None,
    ) -> Self:
        """Open a table with its newest schema as its catalog knows it, or as it was just read."""
        at = identifier.at_branch(opt.Options(options or {}).get(opt.BRANCH))
        loaded = catalog.load_table(at, newest=newest)
        environment = None
        if loaded.uuid is not None or loaded.versions is not None:
            from paimon_assets.engine.control.catalog.managed import CatalogEnvironment

            environment = CatalogEnvironment(catalog=catalog, identifier=at, loaded=loaded)
        return cls(
            file_io=loaded.file_io,
            table_path=loaded.location,
            schema=loaded.schema.with_dynamic_options(options) if options else loaded.schema,
            name=name or str(identifier),
            environment=environment,
            stored={at.branch: loaded.schema},
        )

    def reopen(self, options: Mapping[str, str] | None = None, *, name: str = "") -> Self:
        """Open the table once more, the way it was opened, with its newest schema."""
        here = {} if self.paths.branch == MAIN_BRANCH else {opt.BRANCH.key: self.paths.branch}
        options_now = {**self.dynamic_options, **here} if options is None else options
        opened = self.environment
        if opened is not None:
            name = name or self.name
            return self.load(opened.catalog, opened.identifier, options=options_now, name=name)
        return self.open(self.file_io, self.table_path, options=options_now, name=name or self.name)

    def with_schema(self, schema: TableSchema) -> Self:
        """Return the same table as another of its schemas shows it."""
        return replace(self, schema=schema)

    @cached_property
    def dynamic_options(self) -> dict[str, str]:
        """The options that are not the stored schema's own."""
        opened = self.environment
        stored = (opened.loaded.schema if opened else self.schemas.schema(self.schema.id)).options
        return {
            key: value for key, value in self.schema.options.items() if stored.get(key) != value
        }

    def current(self) -> Self:
        """Return the table with its newest schema. Cost: a read, and a look for the next one."""
        newest = self.schemas.latest_id(self.schema)
        if newest == self.schema.id:
            return self
        stored = self.schemas.schema(newest)
        return self.with_schema(stored.with_dynamic_options(self.dynamic_options))

    def ahead(
        self, *, with_break: bool = False, guesses: bool = False
    ) -> AbstractContextManager[Callable[[], bool]]:
        """Request the newest schema and snapshot of an object store at the same time.

        With `guesses` the block begins with those that were seen last (`FileIO.ahead`).
        """
        reads, files = self.schemas.paths_of_latest(self.schema)
        newest = self.snapshots.paths_of_latest(with_break=with_break)
        return self.file_io.ahead(
            reads=[*reads, *newest.reads],
            files=[*files, *newest.files],
            lists=newest.lists,
            hints=newest.hints,
            guesses=guesses,
        )

    def rewrite_context(
        self, schema_ids: Iterable[int], predicate: Predicate | None = None
    ) -> ReadContext:
        """Return how tasks read files of some schemas, to write their rows by the table's."""
        ids = sorted(set(schema_ids) - {self.schema.id})
        if ids and ids[-1] > self.schema.id:
            raise CommitConflictError(  # columns would be lost
                f"Table '{self.label}': the schema was changed, and files of schema {ids[-1]} "
                f"cannot be rewritten by schema {self.schema.id}. Plan again.",
                kind="schema-changed",
                table=self.label,
                schema_id=ids[-1],
            )
        return ReadContext(
            table=self.label,
            schema=self.schema,
            file_schemas=tuple(map(self.schemas.schema, ids)),
            columns=self.schema.field_names,
            predicate=predicate,
            file_io=self.file_io.spec,
        )

    def retyped_schemas(self, schema_ids: Iterable[int]) -> frozenset[int]:
        """Return the schemas that hold a key column in another type; none that is gone."""
        if not self.schema.has_primary_key:
            return frozenset()
        ids = set(schema_ids) - {self.schema.id}
        older = (schema for schema in map(self.schemas.schema_or_none, ids) if schema)
        keys = self.schema.key_fields
        return frozenset(each.id for each in older if first_retyped(keys, each.by_id))

    def refuse_retyped(self, verb: str, schema_ids: Iterable[int]) -> None:
        """Refuse operations on files that hold a key column in another type."""
        for schema_id in sorted(self.retyped_schemas(schema_ids)):
            check_key_types(self.label, self.schema, self.schemas.schema(schema_id), verb)

    def with_options(self, options: Mapping[str, str]) -> Self:
        """Return the same table with further dynamic options; `branch` opens another branch."""
        branch = options.get(opt.BRANCH.key, self.paths.branch)
        if branch == self.paths.branch:
            return self.with_schema(self.schema.with_dynamic_options(options))
        main = self.label.removesuffix(f"$branch_{self.paths.branch}")
        return self.reopen(
            {**self.dynamic_options, **options},
            name=main if branch == MAIN_BRANCH else f"{main}$branch_{branch}",
        )

    @property
    def created_ms(self) -> int:
        """Time of the first schema, from its file; catalogs know another time."""
        is_first = self.schema.id == 0 and self.environment is None
        return (self.schema if is_first else self.schemas.schema(0)).time_millis

    @property
    def label(self) -> str:
        return self.name or self.table_path

    @cached_property
    def paths(self) -> TablePaths:
        options = self.schema.typed_options
        return TablePaths(
            table=self.table_path,
            data_directory=options.get(opt.DATA_FILE_DIRECTORY),
            branch=options.get(opt.BRANCH),
        )

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Directories that the table owns: deletions happen below them only."""
        return (self.table_path, *self.schema.typed_options.get(opt.DATA_FILE_EXTERNAL_PATHS))

    @cached_property
    def schemas(self) -> SchemaManager:
        if self.environment is None:
            known = self.stored.get(self.paths.branch)
            return SchemaManager(self.file_io, self.paths, known=known)
        from paimon_assets.engine.control.catalog.managed import CatalogSchemaManager

        return CatalogSchemaManager(
            self.environment, self.file_io, self.paths, snapshots=self.snapshots
        )

    @cached_property
    def snapshots(self) -> SnapshotManager:
        managed = self.managed
        newest_of = (
            None if managed is None else partial(managed.catalog.load_snapshot, managed.identifier)
        )
        return SnapshotManager(
            self.file_io, self.paths, newest_of=newest_of, check=self._check_is_same
        )

    def _check_is_same(self, snapshot: Snapshot | None) -> None:
        """Raise if a snapshot, or none, is of another table that was created under this path.

        One that names the schema at hand is the table's own. Else the schema file is looked at,
        once for each schema that snapshots name, and each snapshot that names none.
        """
        if self.is_planned:
            return
        identity, named = self.schema.identity, None
        if snapshot is not None:
            named = snapshot.properties.get(SCHEMA_PROPERTY, snapshot.delta_manifest_list)
        key = (self.file_io.spec.scheme, self.paths.schema_directory, identity, named)
        if named == identity or key in _SAME_TABLES:
            return
        if not self.schemas.is_same(self.schema):
            raise self.schemas.not_the_same(self.schema)
        if named is not None:
            _SAME_TABLES[key] = None
            if len(_SAME_TABLES) > _MOST_REMEMBERED:
                _SAME_TABLES.pop(next(iter(_SAME_TABLES)), None)

    @cached_property
    def managed(self) -> ManagedBranch | None:
        """Its branch in the catalog that keeps its versions; None if its directory does."""
        opened = self.environment
        if opened is None or opened.loaded.versions is None:
            return None
        from paimon_assets.engine.control.catalog.managed import ManagedBranch

        return ManagedBranch(
            catalog=opened.loaded.versions,
            identifier=opened.identifier.at_branch(self.paths.branch),
            uuid=opened.loaded.uuid or "",
        )

    def publish(
        self, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[PartitionStatistics]
    ) -> bool:
        """Publish a snapshot, the last step of a commit: no reader sees it before.

        A catalog that keeps the versions checks the base; without one the caller does, afterwards.
        """
        managed = self.managed
        if managed is None:
            path = self.paths.snapshot(snapshot.id)
            return self.file_io.publish(path, snapshot_to_json(snapshot))
        return managed.catalog.commit_snapshot(
            managed.identifier, managed.uuid, snapshot, base_uuid=base_uuid, statistics=statistics
        )

    @cached_property
    def changelogs(self) -> ChangelogManager:
        """Its changelogs that outlived their snapshots."""
        return ChangelogManager(self.file_io, self.paths)

    @cached_property
    def tags(self) -> TagManager:
        if self.managed is None:
            from paimon_assets.engine.control.managers.tag_manager import TagManager

            return TagManager(self.file_io, self.paths)
        from paimon_assets.engine.control.catalog.managed import CatalogTagManager

        return CatalogTagManager(self.managed, self.file_io, self.paths)

    @cached_property
    def branches(self) -> BranchManager:
        if self.managed is None:
            from paimon_assets.engine.control.managers.branch_manager import BranchManager

            return BranchManager(self.file_io, self.paths)
        from paimon_assets.engine.control.catalog.managed import CatalogBranchManager

        return CatalogBranchManager(self.managed, self.file_io, self.paths)

    @cached_property
    def consumers(self) -> ConsumerManager:
        """How far its readers have come."""
        if self.managed is None:
            from paimon_assets.engine.control.managers.tag_manager import ConsumerManager

            return ConsumerManager(self.file_io, self.paths)
        from paimon_assets.engine.control.catalog.managed import CatalogConsumerManager

        return CatalogConsumerManager(self.managed, self.file_io, self.paths)

    @cached_property
    def partitions(self) -> PartitionValues:
        return PartitionValues(self.schema)

    def bucket_path(self, partition: bytes, bucket: int) -> str:
        return self.paths.bucket(self.partitions.path(partition), bucket)

    def file_path(self, entry: ManifestEntry) -> str:
        if entry.file.external_path is not None:
            return entry.file.external_path
        return f"{self.bucket_path(entry.partition, entry.bucket)}/{entry.file.file_name}"

    @cached_property
    def manifests(self) -> ManifestStore:
        return ManifestStore(self.file_io, self.paths, self.partitions)
