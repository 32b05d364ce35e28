"""SchemaManager: the `schema-N` files of a table.

Source: `org.apache.paimon.schema.SchemaManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.features import check_formats
from paimon_assets.engine.control.managers import numbered_files as numbered
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.evolution.option_rules import is_option, key_hints
from paimon_assets.engine.spec.options.all_options import MANIFEST_FORMAT
from paimon_assets.engine.spec.paths import MAIN_BRANCH, SCHEMA_PREFIX, TablePaths
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema

if TYPE_CHECKING:
    from paimon_assets.engine.spec.evolution.schema_change import SchemaChange


logger = logging.getLogger(__name__)

_MOST_TRIES = 100
"""Most tries of one change under contention; each lost race is one that another writer won."""


class SchemaManager:
    """Reads and creates schema files; a schema file never changes, so each is read once."""

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        *,
        snapshots: SnapshotManager | None = None,
        known: TableSchema | None = None,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._snapshots = snapshots or SnapshotManager(file_io, paths)
        self._schemas = {} if known is None else {known.id: known}

    def list_ids(self) -> list[int]:
        """Return the ids of all schemas, ascending; none without a table. Cost: one listing."""
        return numbered.numbered_files(self._file_io, self._paths.schema_directory, SCHEMA_PREFIX)

    def existing(self, name: str) -> TableSchema:
        path, branch = self._paths.table, self._paths.branch
        with self._snapshots.with_hint():
            schema = self.latest()
        if schema is None and branch != MAIN_BRANCH:
            raise errors.NotFoundError(
                f"Table '{name or path}' has no branch '{branch}'.",
                kind="branch-not-found",
                table=name,
                path=path,
                branch=branch,
            )
        if schema is None:
            message = (
                f"Table '{name}' does not exist" if name else "There is no table"
            ) + f": '{path}' holds no schema file."
            raise errors.NotFoundError(message, kind="table-not-found", table=name, path=path)
        return schema

    def latest(self) -> TableSchema | None:
        """Return the newest schema, None if there is no table.

        Most tables have one, which an object store is asked for beside the listing.
        """
        guess = [] if 0 in self._schemas else [self._paths.schema(0)]
        with self._file_io.ahead(reads=guess, lists=[self._paths.schema_directory]):
            ids = self.list_ids()
            return self.schema(ids[-1]) if ids else None

    def is_same(self, known: TableSchema) -> bool:
        """Whether the table is still the one that was opened, by its schema. Cost: one read."""
        path = self._paths.schema(known.id)
        data = numbered.read_or_none(self._file_io, path)
        if data is None:
            return False
        stored = schema_from_json(data, path)
        return (stored.time_millis, stored.fields) == (known.time_millis, known.fields)

    def latest_id(self, known: TableSchema) -> int:
        """Return the newest id, after a known one: asks for the next ones, without listing."""
        reads, files = self.paths_of_latest(known)
        with self._file_io.ahead(reads=reads, files=files):
            if not self.is_same(known):
                raise self.not_the_same(known)
            newest = known.id
            while self._file_io.exists(self._paths.schema(newest + 1)):
                newest += 1
        return newest

    def paths_of_latest(self, known: TableSchema) -> tuple[list[str], list[str]]:
        """Return the files that `latest_id` is going to read, and those that it looks for."""
        return [self._paths.schema(known.id)], [self._paths.schema(known.id + 1)]

    def not_the_same(self, known: TableSchema) -> errors.NotFoundError:
        return self._missing(
            f"was dropped or renamed meanwhile: its schema {known.id} is gone, or is another "
            "table's. Open the table again"
        )

    def schema(self, schema_id: int) -> TableSchema:
        schema = self._schemas.get(schema_id)
        if schema is None:
            path = self._paths.schema(schema_id)
            schema = schema_from_json(self._file_io.read_bytes(path), path)
            self._schemas[schema_id] = schema
        return schema

    def schema_or_none(self, schema_id: int) -> TableSchema | None:
        try:
            return self.schema(schema_id)
        except errors.NotFoundError:
            return None

    def create(self, schema: Schema, *, time_millis: int) -> TableSchema:
        """Create a table by publishing its first schema."""
        from paimon_assets.engine.spec.evolution.schema_validation import first_schema

        first = first_schema(schema, time_millis=time_millis)
        check_formats(self._paths.label, first)
        self._warn_of_unknown(first.options)
        if not self._publish(first):
            message = f"Table '{self._paths.label}' exists already."
            raise errors.AlreadyExistsError(message, kind="table-exists", path=self._paths.table)
        self._snapshots.remember(0)
        return first

    def evolve(
        self, changes: Sequence[SchemaChange], *, time_millis: int, is_unwritten: bool = False
    ) -> TableSchema:
        """Return the result of `commit_changes` on the newest schema; writes nothing."""
        newest = self.latest()
        if newest is None:
            raise self._missing("does not exist")
        numbered.check_follows(newest.id, "schema", self._paths.label)
        snapshot = None if is_unwritten else self._snapshots.latest()
        written = snapshot is not None
        from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes

        new = apply_changes(newest, changes, has_snapshots=written, time_millis=time_millis)
        before, after = (each.typed_options.get(MANIFEST_FORMAT) for each in (newest, new))
        from paimon_assets.engine.control.manifests import stored_format

        if snapshot is None or before == after:
            check_formats(self._paths.label, new, newest)
        elif after != (stored := stored_format(self._file_io, self._paths, snapshot)):
            copy = "Copy its rows into a new table (`paimon-assets copy`), or keep"
            raise errors.InvalidInputError(
                f"Option '{MANIFEST_FORMAT.key}' of table '{self._paths.label}' cannot change to"
                f" {after}: the manifests there are {stored}, and other engines could not read the"
                f" table. {'Keep' if stored == MANIFEST_FORMAT.default else copy}"
                f" '{MANIFEST_FORMAT.key}' = {stored}.",
                kind="option-change",
                option=MANIFEST_FORMAT.key,
                path=self._paths.table,
            )
        return new

    def commit_changes(
        self,
        changes: Sequence[SchemaChange],
        *,
        time_millis: int,
        base: TableSchema | None = None,
        is_unwritten: bool = False,
    ) -> TableSchema:
        """Publish one schema with all changes applied to the newest, or none.

        `is_unwritten` allows the changes that are allowed before the first snapshot.
        """
        from paimon_assets.engine.spec.evolution.schema_evolution import changes_nothing

        for _ in range(_MOST_TRIES):
            new = self.evolve(changes, time_millis=time_millis, is_unwritten=is_unwritten)
            newest = self._base_of(new, base)
            if changes_nothing(newest, new):
                return newest
            if self._publish(new):
                self._look_back(new, newest)
                self._warn_of_unknown(set(new.options) - set(newest.options))
                return new
            logger.warning("table %s: lost the race for schema %d", self._paths.label, new.id)
        raise self._conflict(f"was changed by other writers {_MOST_TRIES} times meanwhile")

    def _base_of(self, new: TableSchema, judged_on: TableSchema | None) -> TableSchema:
        newest = self.schema(new.id - 1)
        if judged_on is None or newest.id == judged_on.id:
            return newest
        raise self._conflict(
            f"is at schema {newest.id} now, and the changes were judged on {judged_on.id}"
        )

    def _look_back(self, new: TableSchema, before: TableSchema) -> None:
        """Take a schema back that was published after the table was dropped or renamed."""
        try:
            if self.is_same(before):
                return
            is_there = self.is_same(new)
        except (errors.StorageError, errors.FormatError):
            # Only a rename or a drop of this instant would undo the schema.
            logger.warning("table %s: cannot look back", self._paths.label, exc_info=True)
            return
        if not is_there:
            message = (
                f"Table '{self._paths.label}' was renamed or dropped while schema {new.id} was "
                "published; look at its schema under the new name."
            )
            raise errors.CommitUnknownError(message, path=self._paths.table, schema_id=new.id)
        self._file_io.delete_file(self._paths.schema(new.id))
        raise self.not_the_same(before)

    def _publish(self, new: TableSchema) -> bool:
        """Publish a schema; False if another one has the id."""
        path, data = self._paths.schema(new.id), schema_to_json(new)
        schema_from_json(data, path)  # or no reader could open the table
        return publish_once(self._file_io, path, data)

    def _warn_of_unknown(self, keys: Iterable[str]) -> None:
        """Warn of unknown option keys, with the known one that is close; they are stored."""
        hints = key_hints(unknown := [key for key in keys if not is_option(key)])
        for key, known in hints.items():
            logger.warning(
                "table %s: option '%s' is not known; did you mean '%s'?",
                self._paths.label,
                key,
                known,
            )
        if foreign := sorted(set(unknown) - hints.keys()):
            logger.warning(
                "table %s: options that do nothing here are stored for other engines: %s",
                self._paths.label,
                ", ".join(foreign),
            )

    def _missing(self, problem: str) -> errors.NotFoundError:
        message = f"Table '{self._paths.label}' {problem}."
        return errors.NotFoundError(message, kind="table-not-found", path=self._paths.table)

    def _conflict(self, problem: str) -> errors.CommitConflictError:
        message = f"Table '{self._paths.label}' {problem}; look at it and change it again."
        return errors.CommitConflictError(message, kind="schema-conflict", path=self._paths.table)
