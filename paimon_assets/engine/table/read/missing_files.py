"""Explains a missing file: its snapshot expired, or the file was deleted."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import Detail, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import PARTITION_LEGACY_NAME
from paimon_assets.engine.spec.types.data_types import TypeRoot

_FILE_NOT_FOUND = "file-not-found"


@contextmanager
def explaining(store: FileStore, snapshot: Snapshot | None) -> Iterator[None]:
    """Turn a missing file of a snapshot into an error with the cause.

    Raises:
        NotFoundError: Kind `snapshot-expired` if the snapshot is gone, else `file-not-found`.
    """
    try:
        yield
    except NotFoundError as error:
        if error.kind != _FILE_NOT_FOUND or snapshot is None:
            raise
        raise _explain(store, snapshot, error) from error


def explained_batches(
    batches: Iterator[pa.RecordBatch], store: FileStore, snapshot: Snapshot | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a read of a snapshot, with its missing files explained."""
    with explaining(store, snapshot):
        yield from batches


def _explain(store: FileStore, snapshot: Snapshot, error: NotFoundError) -> NotFoundError:
    path = error.details.get("path")
    file = error.message if path is None else f"file '{path}' is gone"
    details: dict[str, Detail] = {"table": store.label, "snapshot_id": snapshot.id, "path": path}
    earliest = store.snapshots.earliest_id()
    if _is_held(store, snapshot):
        has_earlier = earliest is not None and earliest < snapshot.id
        way_out = (
            "Read an earlier snapshot, or roll back to one."
            if has_earlier
            else "There is no earlier snapshot: restore the file from a copy of the table."
        )
        if _has_folders_by_zone(store):
            way_out = (
                f"Or a process of another time zone wrote it to a folder named otherwise, which"
                f" '{PARTITION_LEGACY_NAME.key}' = false allows. {way_out}"
            )
        return NotFoundError(
            f"Snapshot {snapshot.id} of table '{store.label}' is there, but {file}: something else"
            f" than an expiration removed it. {way_out}",
            kind="file-not-found",
            details=details,
        )
    there_is = "no snapshot is left" if earliest is None else f"the oldest is {earliest} now"
    return NotFoundError(
        f"Snapshot {snapshot.id} of table '{store.label}' expired while it was read: {file};"
        f" {there_is}. Read again, from a newer snapshot; a tag, a consumer or a longer"
        " snapshot retention keeps what long reads need.",
        kind="snapshot-expired",
        details=details,
    )


def _has_folders_by_zone(store: FileStore) -> bool:
    fields, options = store.schema.partition_fields, store.schema.typed_options
    instants = any(field.type.root is TypeRoot.TIMESTAMP_LTZ for field in fields)
    return instants and not options.get(PARTITION_LEGACY_NAME)


def _is_held(store: FileStore, snapshot: Snapshot) -> bool:
    now = store.snapshots.snapshot_or_none(snapshot.id)
    if now is not None and now.delta_manifest_list == snapshot.delta_manifest_list:
        return True
    return any(tag.snapshot.id == snapshot.id for tag in store.tags.list())
