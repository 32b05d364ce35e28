"""Explains a missing file: its snapshot expired, or the file was deleted."""

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import Detail, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import PARTITION_LEGACY_NAME
from paimon_assets.engine.spec.types.data_types import TypeRoot


@contextmanager
def explaining(store: FileStore, snapshot: Snapshot | None) -> Iterator[None]:
    """Turn a missing file into an error with its cause: `snapshot-expired`, or `file-not-found`."""
    try:
        yield
    except NotFoundError as error:
        if error.kind != "file-not-found" or snapshot is None:
            raise
        raise _explain(store, snapshot, error) from error


def _explain(store: FileStore, snapshot: Snapshot, error: NotFoundError) -> NotFoundError:
    path = error.details.get("path")
    file = error.message if path is None else f"file '{path}' is gone"
    details: dict[str, Detail] = {"table": store.label, "snapshot_id": snapshot.id, "path": path}
    earliest = store.snapshots.earliest_id()
    now = store.snapshots.snapshot_or_none(snapshot.id)
    is_there = now is not None and now.delta_manifest_list == snapshot.delta_manifest_list
    if is_there or any(tag.snapshot.id == snapshot.id for tag in store.tags.list()):
        has_earlier = earliest is not None and earliest < snapshot.id
        way_out = (
            "Read an earlier snapshot, or roll back to one."
            if has_earlier
            else "There is no earlier snapshot: restore the file from a copy of the table."
        )
        fields, options = store.schema.partition_fields, store.schema.typed_options
        has_instants = any(field.type.root is TypeRoot.TIMESTAMP_LTZ for field in fields)
        if has_instants and not options.get(PARTITION_LEGACY_NAME):
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
