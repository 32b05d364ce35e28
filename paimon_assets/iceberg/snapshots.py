"""Paimon's snapshots as Iceberg's: manifests of changed files, their list, the summary."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from paimon_assets.engine.codec.avro.avro import Record
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.changes import FileChanges, FileRecords, PublishedFiles
from paimon_assets.iceberg.deletion_vectors import puffin_records
from paimon_assets.iceberg.manifest_files import Content, ManifestFiles, Status
from paimon_assets.iceberg.state import IDENTITY, PENDING, identity_of
from paimon_assets.iceberg.table_schema import IcebergTable, JsonObject


class SnapshotWriter(Value, dict=True):
    """Writes the manifests and lists of a table's snapshots; returns their members of documents."""

    files: ManifestFiles

    @property
    def table(self) -> IcebergTable:
        return self.files.table

    @cached_property
    def published_files(self) -> PublishedFiles:
        return PublishedFiles(table=self.table)

    @cached_property
    def records(self) -> FileRecords:
        return FileRecords(table=self.table)

    def whole(self, snapshot: Snapshot, first_row_id: int) -> JsonObject:
        """Write a snapshot as if it had added all files that live in it."""
        changes = self.published_files.live(snapshot)
        manifests = self._added_entries(changes, snapshot)
        manifests = self._with_vectors(manifests, snapshot, None) or manifests
        return self._list_manifests(snapshot, None, manifests, ("append", changes), first_row_id)

    def later(
        self, parent: JsonObject, before: Snapshot | None, missing: Iterable[Snapshot], row_id: int
    ) -> Iterator[JsonObject]:
        """Write snapshots after a parent in the document, which was made of `before`.

        Raises:
            NotFoundError: The parent's files are missing or of another snapshot.
        """
        manifests = self.files.read_list(parent["manifest-list"])
        for snapshot in missing:
            changes = self.published_files.delta(snapshot)
            manifests = self._changed_manifests(manifests, changes, snapshot)
            operation = _operation(changes, snapshot, is_keyed=self.table.schema.has_primary_key)
            vectors = self._with_vectors(manifests, snapshot, before)
            if vectors is not None:
                manifests, operation = vectors, "overwrite"
            parent = self._list_manifests(snapshot, parent, manifests, (operation, changes), row_id)
            row_id += parent.get("added-rows", 0)
            before = snapshot
            yield parent

    def _list_manifests(
        self,
        snapshot: Snapshot,
        parent: JsonObject | None,
        manifests: list[Record],
        change: tuple[str, FileChanges],
        next_row_id: int,
    ) -> JsonObject:
        """Write the list of a snapshot; return its member of the document."""
        operation, changes = change
        made: JsonObject = {
            "snapshot-id": snapshot.id,
            **({} if parent is None else {"parent-snapshot-id": parent["snapshot-id"]}),
            "sequence-number": snapshot.id,
            "timestamp-ms": snapshot.time_millis,
            "schema-id": snapshot.schema_id,
        }
        if self.table.format_version >= 3:
            assigned = _assign_row_ids(manifests, next_row_id)
            made |= {"first-row-id": next_row_id, "added-rows": assigned}
        deletes = [each for each in manifests if each["content"] == Content.DELETES]
        summary = {
            "operation": operation,
            **_summary({} if parent is None else parent["summary"], changes),
            "total-delete-files": str(sum(map(_file_count, deletes))),
            "total-position-deletes": str(sum(map(_row_count, deletes))),
            IDENTITY: identity_of(snapshot),
        }
        path = self.files.write_list(manifests, snapshot.id)
        return made | {"manifest-list": path, "summary": summary}

    def _added_entries(self, changes: FileChanges, snapshot: Snapshot) -> list[Record]:
        files = [self.records.record(path, entry) for path, entry in changes.added.items()]
        return self.files.write_new(files, snapshot.id)

    def _with_vectors(
        self, manifests: Sequence[Record], snapshot: Snapshot, before: Snapshot | None
    ) -> list[Record] | None:
        """Return the manifests with a snapshot's deletion vectors; None if these are the same."""
        if before is not None and before.index_manifest == snapshot.index_manifest:
            return None
        if not self.table.schema.typed_options.get(opt.DELETION_VECTORS_ENABLED):
            return None
        data = [each for each in manifests if each["content"] == Content.DATA]
        vectors = puffin_records(self.table, snapshot)
        return data + self.files.write_new(vectors, snapshot.id, Content.DELETES)

    def _changed_manifests(
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
            live = []
            if gone and self._may_hold(manifest, partitions):
                live = [each for each in self.files.read(manifest) if _is_live(each)]
            if not any(each["data_file"]["file_path"] in gone for each in live):
                result.append(manifest)
                continue
            marked = [_mark_entry(each, gone, snapshot.id) for each in live]
            result += self.files.write(marked, snapshot.id)
        if gone:
            raise NotFoundError(
                f"'{next(iter(gone))}' was removed from table '{self.table.store.label}', and"
                " Iceberg's metadata does not list it.",
                kind="iceberg-file",
            )
        result.reverse()
        return self._join_manifests(result + self._added_entries(changes, snapshot), snapshot)

    def _may_hold(self, manifest: Record, partitions: Sequence[Record]) -> bool:
        """Whether a manifest may list files of some partitions, by its bounds."""
        if manifest["content"] != Content.DATA:
            return False
        bounds = list(zip(self.table.partition_fields, manifest["partitions"] or (), strict=False))
        return any(
            all(field.may_be_in(partition[field.name], summary) for field, summary in bounds)
            for partition in partitions
        )

    def _join_manifests(self, manifests: list[Record], snapshot: Snapshot) -> list[Record]:
        """Return fewer manifests, once there are many small ones."""
        options = self.table.schema.typed_options
        target = options.get(opt.MANIFEST_TARGET_FILE_SIZE)
        small = [
            each
            for each in manifests
            if each["manifest_length"] < target * 2 // 3 and each["content"] == Content.DATA
        ]
        total = sum(each["manifest_length"] for each in small)
        is_many = len(small) >= options.get(ice.ICEBERG_COMPACT_MAX_FILES)
        is_due = len(small) >= options.get(ice.ICEBERG_COMPACT_MIN_FILES) and total >= target
        if not is_many and not is_due:
            return manifests
        entries = []
        for entry in (entry for manifest in small for entry in self.files.read(manifest)):
            if entry["snapshot_id"] == snapshot.id:
                entries.append(entry)
            elif _is_live(entry):
                entries.append({**entry, "status": Status.EXISTING})
        large = [each for each in manifests if each not in small]
        joined = large + self.files.write(entries, snapshot.id)
        self.files.delete(
            each["manifest_path"] for each in small if each["added_snapshot_id"] == snapshot.id
        )
        return joined


def _file_count(manifest: Record) -> int:
    return int(manifest["added_files_count"] + manifest["existing_files_count"])


def _row_count(manifest: Record) -> int:
    return int(manifest["added_rows_count"] + manifest["existing_rows_count"])


def _is_live(entry: Record) -> bool:
    return bool(entry["status"] != Status.DELETED)


def _mark_entry(entry: Record, gone: dict[str, Any], snapshot_id: int) -> Record:
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


def _summary(before: Mapping[str, str], changes: FileChanges) -> dict[str, str]:
    """Return the counts of a snapshot: of its changes, and of the whole table."""
    added, removed = changes.added.values(), changes.removed.values()
    came, went = _counts(added), _counts(removed)
    counts = {f"added-{name}": count for name, count in came.items()}
    for name, count in went.items():
        counts[f"{'removed' if name == 'files-size' else 'deleted'}-{name}"] = count
        counts[f"total-{name}"] = int(before.get(f"total-{name}", 0)) + came[name] - count
    counts["changed-partition-count"] = len({entry.partition for entry in (*added, *removed)})
    counts["total-equality-deletes"] = 0
    counts[PENDING] = int(before.get(PENDING, 0)) + changes.pending
    return {name: str(count) for name, count in counts.items()}


def _counts(entries: Iterable[ManifestEntry]) -> dict[str, int]:
    files = [entry.file for entry in entries]
    return {
        "data-files": len(files),
        "records": sum(file.row_count for file in files),
        "files-size": sum(file.file_size for file in files),
    }
