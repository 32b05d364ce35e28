"""FileStore: the metadata of one table: where it lies, its schema, and what reads its parts.

Source: `org.apache.paimon.FileStore`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from paimon_assets.engine.control.managers.branch_manager import BranchManager
from paimon_assets.engine.control.managers.changelog_manager import ChangelogManager
from paimon_assets.engine.control.managers.consumer_manager import ConsumerManager
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.managers.tag_manager import TagManager
from paimon_assets.engine.control.manifests.manifest_store import ManifestStore
from paimon_assets.engine.control.manifests.partition_values import PartitionValues
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    BRANCH,
    DATA_FILE_DIRECTORY,
    DATA_FILE_EXTERNAL_PATHS,
    Options,
)
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class FileStore:
    """One table as the control plane sees it."""

    file_io: FileIO
    table_path: str
    """The table's directory, without a trailing slash."""
    schema: TableSchema
    """The schema to read or write as, with dynamic options."""
    name: str = ""
    """`database.table` for messages; the path if empty."""

    @classmethod
    def open(
        cls,
        file_io: FileIO,
        table_path: str,
        *,
        options: Mapping[str, str] | None = None,
        name: str = "",
    ) -> Self:
        """Open the table in a directory with its newest schema.

        Args:
            file_io: The storage.
            table_path: The table's directory.
            options: Dynamic options, for this use only; `branch` opens a branch.
            name: `database.table`, if it has one.

        Raises:
            NotFoundError: There is no table, or no such branch.
        """
        path = table_path.rstrip("/")
        branch = Options(options or {}).get(BRANCH)
        schema = SchemaManager(file_io, TablePaths(table=path, branch=branch)).latest()
        if schema is None and branch != MAIN_BRANCH:
            raise NotFoundError(
                f"Table '{name or path}' has no branch '{branch}'.",
                kind="branch-not-found",
                details={"table": name, "path": path, "branch": branch},
            )
        if schema is None:
            raise NotFoundError(
                (f"Table '{name}' does not exist" if name else "There is no table")
                + f": '{path}' holds no schema file.",
                kind="table-not-found",
                details={"table": name, "path": path},
            )
        if options:
            schema = schema.with_dynamic_options(options)
        return cls(file_io=file_io, table_path=path, schema=schema, name=name)

    def with_schema(self, schema: TableSchema) -> Self:
        """Return the same table as another of its schemas shows it."""
        return replace(self, schema=schema)

    @cached_property
    def dynamic_options(self) -> dict[str, str]:
        """The options that are not the stored schema's own."""
        stored = self.schemas.schema(self.schema.id).options
        return {
            key: value for key, value in self.schema.options.items() if stored.get(key) != value
        }

    def with_options(self, options: Mapping[str, str]) -> Self:
        """Return the same table with further dynamic options; `branch` opens another branch.

        Raises:
            NotFoundError: There is no such branch.
        """
        branch = options.get(BRANCH.key, self.paths.branch)
        if branch == self.paths.branch:
            return self.with_schema(self.schema.with_dynamic_options(options))
        main = self.label.removesuffix(f"$branch_{self.paths.branch}")
        return self.open(
            self.file_io,
            self.table_path,
            options={**self.dynamic_options, **options},
            name=main if branch == MAIN_BRANCH else f"{main}$branch_{branch}",
        )

    @property
    def label(self) -> str:
        """What messages call the table."""
        return self.name or self.table_path

    @cached_property
    def paths(self) -> TablePaths:
        """Where its files lie."""
        options = self.schema.typed_options
        return TablePaths(
            table=self.table_path,
            data_directory=options.get(DATA_FILE_DIRECTORY),
            branch=options.get(BRANCH),
        )

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Directories that the table owns: whatever is deleted lies below one of them."""
        return (self.table_path, *self.schema.typed_options.get(DATA_FILE_EXTERNAL_PATHS))

    @cached_property
    def schemas(self) -> SchemaManager:
        """Its schema files."""
        return SchemaManager(self.file_io, self.paths)

    @cached_property
    def snapshots(self) -> SnapshotManager:
        """Its snapshots."""
        return SnapshotManager(self.file_io, self.paths)

    def newest(self) -> Snapshot | None:
        """Return the newest snapshot, None if nothing was committed yet.

        Raises:
            NotFoundError: There is none because the table was dropped or renamed; it is not empty.
        """
        found = self.snapshots.latest()
        if found is None and not self.schemas.is_same(self.schema):
            raise self.schemas.not_the_same(self.schema)
        return found

    @cached_property
    def changelogs(self) -> ChangelogManager:
        """Its changelogs that outlived their snapshots."""
        return ChangelogManager(self.file_io, self.paths)

    @cached_property
    def tags(self) -> TagManager:
        """Its tags."""
        return TagManager(self.file_io, self.paths)

    @cached_property
    def branches(self) -> BranchManager:
        """Its branches."""
        return BranchManager(self.file_io, self.paths)

    @cached_property
    def consumers(self) -> ConsumerManager:
        """How far its readers have come."""
        return ConsumerManager(self.file_io, self.paths)

    @cached_property
    def partitions(self) -> PartitionValues:
        """Its partitions, decoded."""
        return PartitionValues(self.schema)

    @cached_property
    def manifests(self) -> ManifestStore:
        """Its manifests."""
        return ManifestStore(self.file_io, self.paths, self.partitions)
