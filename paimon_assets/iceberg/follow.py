"""Making Iceberg's metadata follow a table: after a commit, a rollback, an expiration.

    newest of our documents ─▶ is it of this table, and of a snapshot that is still there?
        yes   its manifests, with the files that each later snapshot added and removed
        no    all live files, as one snapshot
      ─▶ v<N>.metadata.json, published if there is none ─▶ hint ─▶ unneeded files are deleted

A failure here does not undo the commit; Iceberg is behind until the next one, or `repair`.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.numbered_files import prefixed_files
from paimon_assets.engine.errors import NotFoundError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import TAG_PREFIX
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import state
from paimon_assets.iceberg.document import FORM, MOST_SNAPSHOTS, TOP_LEVEL, DocumentDraft
from paimon_assets.iceberg.manifest_files import ManifestFiles
from paimon_assets.iceberg.publish import Publisher
from paimon_assets.iceberg.snapshots import SnapshotWriter
from paimon_assets.iceberg.table_schema import IcebergTable, JsonObject

logger = logging.getLogger(__name__)

_MOST_MISSING = 50
"""Snapshots that are added one by one; if more are missing, a new history starts."""
_MOST_ADDED = 1 << 40
"""Row ids that a new history leaves to each document that was there and is not found.

HDFS has no step that replaces a file: a document may be absent between two calls."""


def follow_commit(store: FileStore, snapshot: Snapshot, base: Snapshot | None = None) -> None:
    """Write the Iceberg metadata of a commit; on failure it is behind, and the commit counts."""
    try:
        if _is_due(store, snapshot):
            _Follower.of(store, snapshot, base).run()
    except Exception as error:
        text = error.message if isinstance(error, PaimonError) else repr(error)
        logger.warning(
            "table %s: Iceberg's readers do not see snapshot %d: %s",
            store.label, snapshot.id, text, exc_info=not isinstance(error, PaimonError),
        )  # fmt: skip


def _is_due(store: FileStore, snapshot: Snapshot) -> bool:
    if state.writes_iceberg(store):
        return True
    # The option may have been set since the writer opened the table.
    return snapshot.schema_id != store.schema.id and state.writes_iceberg(
        store.with_schema(store.schemas.schema(snapshot.schema_id))
    )


def repair(store: FileStore, *, from_start: bool = False) -> state.IcebergMetadata | None:
    """Make Iceberg's metadata that of the newest snapshot, schema and tags; None without any.

    With `from_start` all of it is written again, from the live files.

    Raises:
        UnsupportedFeatureError: Files lie in the table that Iceberg's readers would read wrongly.
    """
    current = store.current()
    if not state.writes_iceberg(current):
        return None
    newest = current.snapshots.latest()
    if newest is None:
        return None
    return replace(_Follower.of(current, newest, None), thorough=True, from_start=from_start).run()


def follow_quietly(store: FileStore) -> None:
    """Repair after an operation that is done whatever happens here."""
    if not state.writes_iceberg(store):
        return
    try:
        repair(store)
    except PaimonError as error:
        logger.warning("table %s: Iceberg is behind: %s", store.label, error.message)


class _Follower(Value, dict=True):
    """Brings the metadata of one table to one snapshot."""

    files: ManifestFiles
    snapshot: Snapshot
    known: Mapping[int, Snapshot]
    """Snapshots that need not be read again."""
    thorough: bool = False
    """Whether schema, tags and the oldest snapshot are asked for, too."""
    from_start: bool = False

    @staticmethod
    def of(store: FileStore, snapshot: Snapshot, base: Snapshot | None) -> "_Follower":
        known = {each.id: each for each in (snapshot, base) if each is not None}
        table = IcebergTable.of(store, max(snapshot.schema_id, store.schema.id))
        return _Follower(files=ManifestFiles(table=table), snapshot=snapshot, known=known)

    @property
    def table(self) -> IcebergTable:
        return self.files.table

    @property
    def store(self) -> FileStore:
        return self.table.store

    @cached_property
    def writer(self) -> SnapshotWriter:
        return SnapshotWriter(files=self.files)

    @cached_property
    def properties(self) -> dict[str, str]:
        return {
            state.WRITER: FORM,
            state.CREATED: str(self.store.created_ms),
            TOP_LEVEL: str(self.writer.published_files.top_level),
        }

    def run(self) -> state.IcebergMetadata:
        newest = self._newest()
        ahead = None if newest is None else self._ahead(newest)
        if newest is not None and ahead is not None:
            return replace(self, snapshot=ahead).run() if self.thorough else newest
        base = None if self.from_start or newest is None else self._usable(newest)
        if base is not None and base.version == self.snapshot.id and not self.thorough:
            return base
        try:
            document = self._document(base, newest)
        except PaimonError:
            self.files.delete(self.files.written)
            raise
        publisher, done = Publisher(files=self.files, replaces=self.thorough), base
        if done is None or done.document != document:
            done = publisher.publish(document, self.snapshot, base or newest)
        is_overtaken = publisher.point_to(done.version)
        is_overtaken |= (
            self.thorough and done.document != document
        )  # a commit was followed meanwhile
        if self.from_start and not is_overtaken:  # a commit has continued the old one
            later = self._newest()
            is_overtaken = later is not None and later.version > done.version
        if newest is not None:
            publisher.clean(done, newest)
        return (repair(self.store, from_start=self.from_start) or done) if is_overtaken else done

    def _read(self, version: int) -> state.IcebergMetadata | None:
        return state.read_metadata(self.store.file_io, self.table.metadata_directory, version)

    def _newest(self) -> state.IcebergMetadata | None:
        """Return the newest metadata; that of the snapshot before needs no hint."""
        parent = self.known.get(self.snapshot.id - 1)
        before = None if self.thorough or parent is None else self._read(self.snapshot.id - 1)
        if before is not None and parent is not None and before.shows(parent):
            return before
        return state.newest_metadata(self.store)

    def _ahead(self, newest: state.IcebergMetadata) -> Snapshot | None:
        """Return the later snapshot that another process has shown already."""
        if newest.version <= self.snapshot.id:
            return None
        later = self.store.snapshots.snapshot_or_none(newest.version)
        return later if later is not None and newest.shows(later) else None

    def _usable(self, newest: state.IcebergMetadata) -> state.IcebergMetadata | None:
        """Return the metadata to go on with: the newest one, or one of before a rollback."""
        version = min(newest.version, self.snapshot.id)
        if version < newest.version:
            earlier = self._read(version)
            if earlier is None:
                return None
            newest = earlier
        before, table = newest.document, self.table
        properties = before.get("properties") or {}
        is_ours = all(properties.get(key) == value for key, value in self.properties.items())
        if (
            not is_ours
            or before["format-version"] != table.format_version
            or before["location"] != table.store.table_path
            or before["partition-specs"] != [table.partition_spec]
            or self.snapshot.id - version > _MOST_MISSING
            or not self._knows_schema(before)
        ):
            return None
        shown = self._snapshot(version)
        return newest if shown is not None and newest.shows(shown) else None

    def _knows_schema(self, before: JsonObject) -> bool:
        """Whether a schema is unchanged: after a rollback its id may belong to another one."""
        for each in before["schemas"]:
            if each["schema-id"] == self.table.schema.id:
                fields: list[Any] = self.table.schema_json(())["fields"]
                return fields == [{**known, "required": False} for known in each["fields"]]
        return int(before["current-schema-id"]) < self.table.schema.id

    def _snapshot(self, number: int) -> Snapshot | None:
        return self.known.get(number) or self.store.snapshots.snapshot_or_none(number)

    def _document(
        self, base: state.IcebergMetadata | None, newest: state.IcebergMetadata | None
    ) -> JsonObject:
        row_id = 0 if newest is None else int(newest.document.get("next-row-id") or 0)
        added = None if base is None else self._add_snapshot(base, row_id)
        if added is None:
            if newest is not None:
                row_id += max(0, self.snapshot.id - 1 - newest.version) * _MOST_ADDED
            base, added = None, list(self._new_history(row_id))
        earliest = self.store.snapshots.earliest_id() if self.thorough else None
        return DocumentDraft(
            table=self.table,
            base=base,
            replaced=newest,
            added=added,
            tags=self._tags(base),
            next_row_id=row_id + sum(each.get("added-rows", 0) for each in added),
            earliest_id=earliest or 0,
            properties=self.properties,
        ).document()

    @cached_property
    def _held_snapshots(self) -> Mapping[int, Snapshot]:
        """The snapshots that a new history lists: after a rename all files have other paths.

        A commit lists the newest alone.
        """
        held = {self.snapshot.id: self.snapshot}
        if self.thorough:
            ids = [n for n in self.store.snapshots.list_ids() if n < self.snapshot.id]
            read = map(self._snapshot, ids[-MOST_SNAPSHOTS:])
            tagged = (tag.snapshot for tag in self.store.tags.list())
            older = [*tagged, *(each for each in read if each is not None)]
            held |= {each.id: each for each in older if each.id < self.snapshot.id}
        return held

    def _new_history(self, row_id: int) -> Iterator[JsonObject]:
        """Yield the snapshots of a new history, but for those that cannot be shown."""
        parent, before = None, None
        for number in sorted(self._held_snapshots):
            snapshot, is_newest = self._held_snapshots[number], number == self.snapshot.id
            try:
                if parent is not None and before is not None and before.id == number - 1:
                    parent = next(self.writer.later(parent, before, [snapshot], row_id))
                else:
                    parent = self.writer.whole(snapshot, row_id)
            except PaimonError as error:
                logger.warning("table %s: %s", self.store.label, error.message)
                if not is_newest:
                    continue
                parent = self.writer.whole(snapshot, row_id)
            before, row_id = snapshot, row_id + parent.get("added-rows", 0)
            yield parent

    def _add_snapshot(self, base: state.IcebergMetadata, row_id: int) -> list[JsonObject] | None:
        """Return the snapshots after a base; None if one is gone, or the base is damaged."""
        numbers = range(base.version, self.snapshot.id + 1)
        before, *missing = [self._snapshot(number) for number in numbers]
        later = [each for each in missing if each is not None]
        if len(later) < len(missing) or base.snapshot is None:
            return None
        try:
            return list(self.writer.later(base.snapshot, before, later, row_id)) if later else []
        except (NotFoundError, UnsupportedFeatureError) as error:
            # One that cannot be shown may have been emptied since: a new history leaves it out.
            logger.warning("table %s: %s", self.store.label, error.message)
            return None

    def _tags(self, base: state.IcebergMetadata | None) -> dict[str, int]:
        """Return tag → snapshot: a listing; only tags that the base does not know are read."""
        known = {} if base is None or self.thorough else base.document.get("refs") or {}
        if self.store.managed is None:
            directory = self.store.paths.tag_directory
            names = list(prefixed_files(self.store.file_io, directory, TAG_PREFIX))
        else:
            names = [tag.name for tag in self.store.tags.list()]
        tags = {}
        for name in names:
            if name in known:
                tags[name] = known[name]["snapshot-id"]
                continue
            tag = self.store.tags.get_or_none(name)
            if tag is None:
                continue
            listed = self._held_snapshots.get(tag.snapshot.id)
            if (
                base.shows(tag.snapshot) or tag.snapshot.id > base.version
                if base is not None
                else listed is not None
                and state.identity_of(listed) == state.identity_of(tag.snapshot)
            ):
                tags[name] = tag.snapshot.id
        return tags
