"""Making Iceberg's metadata follow a table: after a commit, a rollback, an expiration.

    newest of our documents ─▶ is it of this table, and of a snapshot that is still there?
        yes   its manifests, with what each later snapshot added and removed
        no    all live files, as one snapshot
      ─▶ v<N>.metadata.json, published if there is none ─▶ hint ─▶ what no reader needs is deleted

A commit stands whatever happens here; Iceberg is behind until the next one, or `repair`.
"""

import json
import logging
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from paimon_assets.engine.codec.avro.avro import Record
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.iceberg import document as doc
from paimon_assets.engine.control.iceberg.changes import FileChanges, FileRecords, PublishedFiles
from paimon_assets.engine.control.iceberg.deletion_vectors import PuffinVectors
from paimon_assets.engine.control.iceberg.manifest_files import Content, ManifestFiles, Status
from paimon_assets.engine.control.iceberg.state import (
    HINT_NAME,
    IDENTITY,
    PENDING,
    IcebergMetadata,
    identity_of,
    metadata_path,
    newest_metadata,
    read_metadata,
    versions,
    writes_iceberg,
)
from paimon_assets.engine.control.iceberg.table_schema import IcebergTable, JsonObject
from paimon_assets.engine.control.managers.numbered_files import prefixed_files
from paimon_assets.engine.control.publishing import published
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.fileio.owned_deletion import delete_owned
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import TAG_PREFIX

logger = logging.getLogger(__name__)

_MOST_MISSING = 50
"""Snapshots that are added one by one; if more are missing, the history begins anew."""
_ENTRIES_A_MANIFEST = 20_000


def follow_commit(store: FileStore, snapshot: Snapshot, base: Snapshot | None = None) -> None:
    """Write the Iceberg metadata of a commit; on failure it is behind, and the commit stands."""
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
    if writes_iceberg(store):
        return True
    # The option may have been set since the writer opened the table.
    return snapshot.schema_id != store.schema.id and writes_iceberg(
        store.with_schema(store.schemas.schema(snapshot.schema_id))
    )


def repair(store: FileStore, *, anew: bool = False) -> IcebergMetadata | None:
    """Make Iceberg's metadata that of the newest snapshot, schema and tags; None without any.

    With `anew` all of it is written again, from the live files.

    Raises:
        UnsupportedFeatureError: Files lie in the table that Iceberg's readers would read wrongly.
    """
    current = store.current()
    if not writes_iceberg(current):
        return None
    newest = current.snapshots.latest()
    if newest is None:
        return None
    return replace(_Follower.of(current, newest, None), thorough=True, anew=anew).run()


def follow_quietly(store: FileStore) -> None:
    """Repair after an operation that is done whatever happens here."""
    if not writes_iceberg(store):
        return
    try:
        repair(store)
    except PaimonError as error:
        logger.warning("table %s: Iceberg is behind: %s", store.label, error.message)


@dataclass(frozen=True, kw_only=True)
class _Follower:
    """Brings the metadata of one table to one snapshot."""

    table: IcebergTable
    snapshot: Snapshot
    known: Mapping[int, Snapshot]
    """Snapshots that need not be read again."""
    thorough: bool = False
    """Whether schema, tags and the oldest snapshot are asked for, too."""
    anew: bool = False
    written: list[str] = field(default_factory=list)

    @staticmethod
    def of(store: FileStore, snapshot: Snapshot, base: Snapshot | None) -> "_Follower":
        known = {each.id: each for each in (snapshot, base) if each is not None}
        schema_id = max(snapshot.schema_id, store.schema.id)
        return _Follower(table=IcebergTable.of(store, schema_id), snapshot=snapshot, known=known)

    @property
    def store(self) -> FileStore:
        return self.table.store

    @property
    def directory(self) -> str:
        return self.table.metadata_directory

    @cached_property
    def files(self) -> ManifestFiles:
        return ManifestFiles(file_io=self.store.file_io, table=self.table)

    @cached_property
    def published_files(self) -> PublishedFiles:
        return PublishedFiles(table=self.table)

    @cached_property
    def records(self) -> FileRecords:
        return FileRecords(table=self.table)

    @cached_property
    def properties(self) -> dict[str, str]:
        return {
            doc.WRITER: doc.FORM,
            doc.CREATED: str(self.store.created_ms),
            doc.TOP_LEVEL: str(self.published_files.top_level),
        }

    def run(self) -> IcebergMetadata:
        newest = self._newest()
        base = None if self.anew or newest is None else self._usable(newest)
        if base is not None and base.version == self.snapshot.id and not self.thorough:
            return base
        try:
            made = self._made(base, newest)
            is_there = base is not None and base.document == made
            done = base if base is not None and is_there else self._publish(made)
        except PaimonError:
            self._delete(self.written)
            raise
        self._point_to(done)
        self._clean(done, newest)
        return done

    def _newest(self) -> IcebergMetadata | None:
        """Return the newest metadata; that of the snapshot before needs no hint."""
        if not self.thorough and self.snapshot.id - 1 in self.known:
            before = read_metadata(self.store.file_io, self.directory, self.snapshot.id - 1)
            if before is not None and before.shows(self.known[self.snapshot.id - 1]):
                return before
        return newest_metadata(self.store)

    def _usable(self, newest: IcebergMetadata) -> IcebergMetadata | None:
        """Return the metadata to go on with: the newest one, or one of before a rollback."""
        version = min(newest.version, self.snapshot.id)
        if version < newest.version:
            earlier = read_metadata(self.store.file_io, self.directory, version)
            if earlier is None:
                return None
            newest = earlier
        before, table = newest.document, self.table
        properties = before.get("properties") or {}
        is_ours = all(properties.get(key) == value for key, value in self.properties.items())
        if (
            not is_ours
            or before["format-version"] != table.format_version
            or before["location"] != table.location
            or before["partition-specs"] != [table.partition_spec]
            or self.snapshot.id - version > _MOST_MISSING
            or not self._knows_schema(before)
        ):
            return None
        shown = self._snapshot(version)
        return newest if shown is not None and newest.shows(shown) else None

    def _knows_schema(self, before: JsonObject) -> bool:
        """Whether a schema is what it was: after a rollback its id may be another's."""
        for each in before["schemas"]:
            if each["schema-id"] == self.table.schema.id:
                fields: list[Any] = self.table.schema_json(())["fields"]
                return fields == [{**known, "required": False} for known in each["fields"]]
        return int(before["current-schema-id"]) < self.table.schema.id

    def _snapshot(self, number: int) -> Snapshot | None:
        return self.known.get(number) or self.store.snapshots.snapshot_or_none(number)

    def _made(self, base: IcebergMetadata | None, newest: IcebergMetadata | None) -> JsonObject:
        floor = 0 if newest is None else int(newest.document.get("next-row-id") or 0)
        missing = None if base is None else self._missing(base)
        later = None
        if base is not None and missing is not None:
            try:
                later = self._later(base, missing, floor)
            except NotFoundError as error:  # its files are damaged: begin anew
                logger.warning("table %s: %s", self.store.label, error.message)
        if later is None:
            base, last = None, self._whole(floor)
            later = [last], floor + last.get("added-rows", 0)
        added, next_row_id = later
        earliest = self.store.snapshots.earliest_id() if self.thorough else None
        return doc.DocumentDraft(
            table=self.table,
            base=base,
            replaced=newest,
            added=added,
            tags=self._tags(base),
            next_row_id=next_row_id,
            earliest_id=earliest or 0,
            properties=self.properties,
        ).document()

    def _missing(self, base: IcebergMetadata) -> list[Snapshot] | None:
        """Return the snapshots after a base, None if one of them is gone."""
        found = []
        for number in range(base.version + 1, self.snapshot.id + 1):
            snapshot = self._snapshot(number)
            if snapshot is None:
                return None
            found.append(snapshot)
        return found

    def _tags(self, base: IcebergMetadata | None) -> dict[str, int]:
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
            if base is None or tag.snapshot.id > base.version or base.shows(tag.snapshot):
                tags[name] = tag.snapshot.id
        return tags

    def _whole(self, first_row_id: int) -> JsonObject:
        changes = self.published_files.live(self.snapshot)
        manifests = self._added_manifests(changes, self.snapshot)
        manifests = self._vectors(manifests, self.snapshot, None) or manifests
        totals = _Totals()
        totals.count(changes)
        return self._snapshot_json(self.snapshot, None, manifests, "append", totals, first_row_id)

    def _later(
        self, base: IcebergMetadata, missing: Sequence[Snapshot], next_row_id: int
    ) -> tuple[list[JsonObject], int]:
        current = base.snapshot
        if not missing or current is None:
            return [], next_row_id
        manifests = self.files.read_list(current["manifest-list"])
        totals, parent, added = _Totals.of(current["summary"]), current["snapshot-id"], []
        before = self._snapshot(base.version)
        for snapshot in missing:
            changes = self.published_files.delta(snapshot)
            manifests = self._changed(manifests, changes, snapshot)
            totals.count(changes)
            operation = _operation(changes, snapshot, is_keyed=self.table.schema.has_primary_key)
            vectors = self._vectors(manifests, snapshot, before)
            if vectors is not None:
                manifests, operation = vectors, "overwrite"
            before = snapshot
            made = self._snapshot_json(snapshot, parent, manifests, operation, totals, next_row_id)
            next_row_id += made.get("added-rows", 0)
            parent = snapshot.id
            added.append(made)
        return added, next_row_id

    def _snapshot_json(
        self,
        snapshot: Snapshot,
        parent: int | None,
        manifests: list[Record],
        operation: str,
        totals: "_Totals",
        next_row_id: int,
    ) -> JsonObject:
        """Write the list of a snapshot; return its member of the document."""
        made: JsonObject = {
            "snapshot-id": snapshot.id,
            **({} if parent is None else {"parent-snapshot-id": parent}),
            "sequence-number": snapshot.id,
            "timestamp-ms": snapshot.time_millis,
            "schema-id": snapshot.schema_id,
        }
        if self.table.format_version >= 3:
            assigned = _assign_row_ids(manifests, next_row_id)
            made |= {"first-row-id": next_row_id, "added-rows": assigned}
        path = self.files.write_list(manifests, snapshot.id)
        self.written.append(path)
        deletes = [each for each in manifests if each["content"] == Content.DELETES]
        summary = {
            "operation": operation,
            **totals.texts(),
            "total-delete-files": str(sum(map(_file_count, deletes))),
            "total-position-deletes": str(sum(map(_row_count, deletes))),
            IDENTITY: identity_of(snapshot),
        }
        return made | {"manifest-list": path, "summary": summary}

    def _added_manifests(self, changes: FileChanges, snapshot: Snapshot) -> list[Record]:
        entries = [
            {
                "status": Status.ADDED,
                "snapshot_id": snapshot.id,
                "sequence_number": snapshot.id,
                "file_sequence_number": snapshot.id,
                "data_file": self.records.record(path, entry),
            }
            for path, entry in changes.added.items()
        ]
        return self._write(entries, snapshot)

    def _vectors(
        self, manifests: Sequence[Record], snapshot: Snapshot, before: Snapshot | None
    ) -> list[Record] | None:
        """Return the manifests with a snapshot's deletion vectors; None if these are the same."""
        if before is not None and before.index_manifest == snapshot.index_manifest:
            return None
        if not self.table.schema.typed_options.get(opt.DELETION_VECTORS_ENABLED):
            return None
        data = [each for each in manifests if each["content"] == Content.DATA]
        entries = PuffinVectors(table=self.table).entries(snapshot)
        return data + self._write(entries, snapshot, Content.DELETES)

    def _write(
        self, entries: Sequence[Record], snapshot: Snapshot, content: Content = Content.DATA
    ) -> list[Record]:
        made = []
        for start in range(0, len(entries), _ENTRIES_A_MANIFEST):
            some = entries[start : start + _ENTRIES_A_MANIFEST]
            manifest = self.files.write(some, snapshot.id, content)
            self.written.append(manifest["manifest_path"])
            made.append(manifest)
        return made

    def _changed(
        self, manifests: Sequence[Record], changes: FileChanges, snapshot: Snapshot
    ) -> list[Record]:
        """Return the manifests after a snapshot. Those without a removed file stay as they are."""
        gone = dict(changes.removed)
        touched = {entry.partition for entry in gone.values()}
        partitions = [self.table.partition_record(each) for each in touched]
        result = []
        for manifest in reversed(manifests):
            if _file_count(manifest) == 0:
                continue  # deletions of an earlier snapshot
            if not gone or not self._may_hold(manifest, partitions):
                result.append(manifest)
                continue
            entries = self.files.read(manifest)
            if not any(
                each["data_file"]["file_path"] in gone for each in entries if _is_live(each)
            ):
                result.append(manifest)
                continue
            kept = [_marked(each, gone, snapshot.id) for each in entries if _is_live(each)]
            result += self._write(kept, snapshot)
        if gone:
            raise NotFoundError(
                f"'{next(iter(gone))}' was removed from table '{self.store.label}', and Iceberg's"
                " metadata does not list it.",
                kind="iceberg-file",
            )
        result.reverse()
        return self._joined(result + self._added_manifests(changes, snapshot), snapshot)

    def _may_hold(self, manifest: Record, partitions: Sequence[Record]) -> bool:
        """Whether a manifest may list files of some partitions, by its bounds."""
        if manifest["content"] != Content.DATA:
            return False
        bounds = list(zip(self.table.partition_fields, manifest["partitions"] or (), strict=False))
        return any(
            all(field.may_be_in(partition[field.name], summary) for field, summary in bounds)
            for partition in partitions
        )

    def _joined(self, manifests: list[Record], snapshot: Snapshot) -> list[Record]:
        """Return fewer manifests, once there are many small ones."""
        options = self.table.schema.typed_options
        target = options.get(opt.MANIFEST_TARGET_FILE_SIZE)
        small = [
            each
            for each in manifests
            if each["manifest_length"] < target * 2 // 3 and each["content"] == Content.DATA
        ]
        total = sum(each["manifest_length"] for each in small)
        is_many = len(small) >= options.get(opt.ICEBERG_COMPACT_MAX_FILES)
        is_due = len(small) >= options.get(opt.ICEBERG_COMPACT_MIN_FILES) and total >= target
        if not is_many and not is_due:
            return manifests
        entries = []
        for manifest in small:
            for entry in self.files.read(manifest):
                if _is_live(entry):
                    is_new = entry["snapshot_id"] == snapshot.id
                    status = entry["status"] if is_new else Status.EXISTING
                    entries.append({**entry, "status": status})
                elif entry["snapshot_id"] == snapshot.id:
                    entries.append(entry)
        large = [each for each in manifests if each not in small]
        joined = large + self._write(entries, snapshot)
        self._delete(
            each["manifest_path"] for each in small if each["added_snapshot_id"] == snapshot.id
        )
        return joined

    def _publish(self, made: JsonObject) -> IcebergMetadata:
        path = metadata_path(self.directory, self.snapshot.id)
        data = json.dumps(made, separators=(",", ":")).encode()
        if self.thorough or not published(self.store.file_io, path, data):
            there = read_metadata(self.store.file_io, self.directory, self.snapshot.id)
            if not self.thorough and there is not None and there.shows(self.snapshot):
                self._delete(self.written)  # another process was faster
                return there
            self.store.file_io.replace(path, data)
        return IcebergMetadata(location=path, version=self.snapshot.id, document=made)

    def _point_to(self, done: IcebergMetadata) -> None:
        """Write the hint, unless there is newer metadata; what a rollback left is deleted."""
        later = metadata_path(self.directory, done.version + 1)
        if self.thorough or self.store.file_io.exists(later):
            newest = self.store.snapshots.latest_id()
            if newest is not None and newest > done.version:
                return
            left = [each for each in versions(self.store.file_io, self.directory)
                    if each > done.version]  # fmt: skip
            self._delete(metadata_path(self.directory, each) for each in left)
        hint = f"{self.directory}/{HINT_NAME}"
        self.store.file_io.write_hint(hint, str(done.version).encode())

    def _clean(self, done: IcebergMetadata, before: IcebergMetadata | None) -> None:
        """Delete the oldest documents, and the lists and manifests of snapshots that went."""
        if before is None or not self.table.schema.typed_options.get(
            opt.ICEBERG_DELETE_AFTER_COMMIT
        ):
            return
        kept = {each["metadata-file"] for each in done.document["metadata-log"]}
        log = before.document.get("metadata-log") or ()
        old = [*(each["metadata-file"] for each in log), before.location]
        self._delete(path for path in old if path not in kept and path != done.location)
        kept_lists = _lists(done, done.version)
        went = {
            number: path
            for number, path in _lists(before, done.version).items()
            if path != kept_lists.get(number)
        }
        # A history that began anew leaves its files as orphans: it may be in somebody's hands.
        if went and kept_lists.items() & _lists(before, done.version).items():
            self._delete_lists(went, kept_lists)

    def _delete_lists(self, went: Mapping[int, str], kept: Mapping[int, str]) -> None:
        """Delete the lists of snapshots, and the manifests that only they name.

        A manifest is in the lists of successive snapshots, so the nearest ones on both sides tell.
        """
        numbers = sorted(kept)
        near = set[int]()
        for number in went:
            at = bisect(numbers, number)
            near.update(numbers[max(at - 1, 0) : at + 1])
        needed = {
            manifest["manifest_path"]
            for number in near
            for manifest in self.files.read_list(kept[number])
        }
        for path in went.values():
            try:
                named = [each["manifest_path"] for each in self.files.read_list(path)]
            except NotFoundError:
                continue
            self._delete([*(each for each in named if each not in needed), path])

    def _delete(self, paths: Iterable[str]) -> None:
        # After a rename, a document names files where they were.
        own = [path for path in paths if path.startswith(f"{self.directory}/")]
        delete_owned(self.store.file_io, (self.directory,), own)


def _lists(metadata: IcebergMetadata, most: int) -> dict[int, str]:
    """Return snapshot → list, of snapshots up to a number."""
    listed = metadata.document.get("snapshots") or ()
    return {
        each["snapshot-id"]: each["manifest-list"] for each in listed if each["snapshot-id"] <= most
    }


def _file_count(manifest: Record) -> int:
    return int(manifest["added_files_count"] + manifest["existing_files_count"])


def _row_count(manifest: Record) -> int:
    return int(manifest["added_rows_count"] + manifest["existing_rows_count"])


def _is_live(entry: Record) -> bool:
    return bool(entry["status"] != Status.DELETED)


def _marked(entry: Record, gone: dict[str, Any], snapshot_id: int) -> Record:
    """Return an entry for the manifest that replaces its own, and forget the file if it is gone."""
    if gone.pop(entry["data_file"]["file_path"], None) is None:
        return {**entry, "status": Status.EXISTING}
    return {**entry, "status": Status.DELETED, "snapshot_id": snapshot_id}


def _operation(changes: FileChanges, snapshot: Snapshot, *, is_keyed: bool) -> str:
    """Return Iceberg's word for a commit; readers of changes skip `replace`."""
    if not changes.removed:
        return "append"
    if snapshot.commit_kind is CommitKind.COMPACT and not is_keyed:
        return "replace"
    return "overwrite" if changes.added else "delete"


def _assign_row_ids(manifests: Iterable[Record], first: int) -> int:
    """Give the rows of new manifests ids from a first one; return how many were given."""
    given = 0
    for manifest in manifests:
        if manifest["content"] == Content.DATA and manifest["first_row_id"] is None:
            manifest["first_row_id"] = first + given
            given += _row_count(manifest)
    return given


@dataclass(slots=True, kw_only=True)
class _Totals:
    """The counts of a snapshot's summary: of the whole table, and of its changes."""

    records: int = 0
    files: int = 0
    size: int = 0
    pending: int = 0
    changes: FileChanges = field(default_factory=FileChanges)

    @staticmethod
    def of(summary: Mapping[str, str]) -> "_Totals":
        return _Totals(
            records=int(summary["total-records"]),
            files=int(summary["total-data-files"]),
            size=int(summary["total-files-size"]),
            pending=int(summary[PENDING]),
        )

    def count(self, changes: FileChanges) -> None:
        self.changes = changes
        for sign, entries in ((1, changes.added), (-1, changes.removed)):
            self.files += sign * len(entries)
            self.records += sign * sum(entry.file.row_count for entry in entries.values())
            self.size += sign * sum(entry.file.file_size for entry in entries.values())
        self.pending += changes.pending

    def texts(self) -> dict[str, str]:
        added, removed = self.changes.added.values(), self.changes.removed.values()
        partitions = {entry.partition for entry in (*added, *removed)}
        counts = {
            "added-data-files": len(added),
            "added-records": sum(entry.file.row_count for entry in added),
            "added-files-size": sum(entry.file.file_size for entry in added),
            "deleted-data-files": len(removed),
            "deleted-records": sum(entry.file.row_count for entry in removed),
            "removed-files-size": sum(entry.file.file_size for entry in removed),
            "changed-partition-count": len(partitions),
            "total-records": self.records,
            "total-data-files": self.files,
            "total-files-size": self.size,
            "total-equality-deletes": 0,
            PENDING: self.pending,
        }
        return {name: str(number) for name, number in counts.items()}
