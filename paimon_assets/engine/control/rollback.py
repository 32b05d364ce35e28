"""Roll a table back: the snapshot or tag becomes the newest state, later ones are undone.

    mark ─▶ still there? ─▶ later tags ─▶ later snapshots, newest first ─▶ later changelogs ─▶ hint

Tags go first: one that outlived its snapshots would be of another history, and its files would look
as if nothing needed them. Data files and manifests of undone snapshots stay as orphans. Concurrent
commits are undone, unless they are built on the state that is rolled back to; a commit
whose base was undone withdraws itself and plans again. The mark, a hidden file among the tags,
keeps an expiration from the snapshot (`maintenance.references`); one that a killed rollback left is
cleaned as an orphan.
Source: `org.apache.paimon.table.RollbackHelper`, `FileStoreTable.rollbackTo`.
"""

import re
from collections.abc import Iterable

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.catalog.managed import ManagedBranch
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import forget_after
from paimon_assets.engine.control.listeners import follow_change
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import ROW_TRACKING_ENABLED
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value

_MARK = re.compile(r"\.rollback-([0-9]{1,19})\.[0-9a-f]{32}\.tmp")


class Rollback(Value):
    snapshot: Snapshot
    snapshots: tuple[int, ...]
    """Deleted snapshots, newest first."""
    tags: tuple[str, ...]
    changelogs: tuple[int, ...]
    """Deleted changelogs without snapshots."""


def rollback_to_snapshot(store: FileStore, snapshot_id: int) -> Rollback:
    snapshot = store.snapshots.snapshot(snapshot_id)
    _refuse_without_ids(store, snapshot)
    if store.managed is not None:
        return _through_catalog(store, store.managed, snapshot_id, snapshot)
    with store.tags.undoing(f"rollback-{snapshot.id}"):
        if not store.snapshots.has_its_files(snapshot):
            store.snapshots.snapshot(snapshot_id)
            raise _missing_target(store, f"Snapshot {snapshot_id}")
        done = _roll_back(store, snapshot)
    follow_change(store)
    return done


def _refuse_without_ids(store: FileStore, snapshot: Snapshot) -> None:
    """Refuse a snapshot from before the table had row ids: Java could not read its files then."""
    tracks = store.current().schema.typed_options.get(ROW_TRACKING_ENABLED)
    if tracks and snapshot.total_record_count and not snapshot.next_row_id:
        raise errors.InvalidInputError(
            f"Table '{store.label}' cannot be rolled back to snapshot {snapshot.id}: its rows have"
            " no row ids, and the table's have since. Make a branch of it.",
            kind="rollback-row-ids",
            table=store.label,
            snapshot_id=snapshot.id,
        )


def rollback_to_tag(store: FileStore, tag: str) -> Rollback:
    """Roll back to a tag; restores its snapshot if that expired."""
    snapshot = store.tags.get(tag).snapshot
    _refuse_without_ids(store, snapshot)
    if store.managed is not None:
        return _through_catalog(store, store.managed, tag, snapshot)
    with store.tags.undoing(f"rollback-{snapshot.id}"):
        earliest = store.snapshots.earliest_id()
        path = store.paths.snapshot(snapshot.id)
        is_gone = not store.file_io.exists(path)
        # Another rollback to it may have been faster: its snapshot stays.
        revived = is_gone and publish_once(store.file_io, path, snapshot_to_json(snapshot))
        named = store.tags.get_or_none(tag)
        if named is None or named.snapshot != snapshot:
            # If it is the newest, another rollback went to it: then it stays.
            if revived and store.snapshots.list_ids()[-1:] != [snapshot.id]:
                store.file_io.delete_file(path)
            raise _missing_target(store, f"Tag '{tag}'")
        done = _roll_back(store, snapshot)
    if revived and (earliest is None or earliest > snapshot.id):
        store.snapshots.write_earliest_hint(snapshot.id)
    follow_change(store)
    return done


def _through_catalog(
    store: FileStore, managed: ManagedBranch, target: int | str, snapshot: Snapshot
) -> Rollback:
    newest, tags = store.snapshots.latest_id(), store.tags.list()
    managed.catalog.rollback_to(managed.identifier, target, from_snapshot=newest)
    forget_after(store, snapshot.id)
    follow_change(store)
    remaining = {tag.name for tag in store.tags.list()}
    return Rollback(
        snapshot=snapshot,
        snapshots=tuple(range(newest or snapshot.id, snapshot.id, -1)),
        tags=tuple(tag.name for tag in tags if tag.name not in remaining),
        changelogs=(),
    )


def rollback_schema(store: FileStore, schema_id: int) -> TableSchema:
    """Undo the schemas after one, if no snapshot, tag or changelog was written with them."""
    if store.managed is not None:
        store.managed.catalog.rollback_schema(store.managed.identifier, schema_id)
        return store.schemas.schema(schema_id)
    ids = store.schemas.list_ids()
    if schema_id not in ids:
        raise errors.NotFoundError(
            f"Table '{store.label}' has no schema {schema_id}.",
            kind="schema-not-found",
            table=store.label,
            schema_id=schema_id,
        )
    changelogs = (
        store.changelogs.changelog_or_none(number) for number in store.changelogs.list_ids()
    )
    for noun, snapshots in (
        ("snapshot", store.snapshots.all()),
        ("tag of snapshot", (tag.snapshot for tag in store.tags.list())),
        ("changelog", changelogs),
    ):
        for snapshot in snapshots:
            if snapshot is not None and snapshot.schema_id > schema_id:
                raise errors.InvalidInputError(
                    f"Table '{store.label}' cannot go back to schema {schema_id}: {noun} "
                    f"{snapshot.id} is of schema {snapshot.schema_id}. Roll the table back to an "
                    "earlier snapshot first.",
                    kind="rollback-schema",
                    table=store.label,
                    schema_id=schema_id,
                )
    for number in sorted(ids, reverse=True):
        if number > schema_id:
            store.file_io.delete_file(store.paths.schema(number))
    return store.schemas.schema(schema_id)


def rolled_back_to(names: Iterable[str]) -> list[int]:
    """Return the snapshots that marks are about, given the names in the tag directory."""
    return [int(found[1]) for name in names if (found := _MARK.fullmatch(name))]


def _roll_back(store: FileStore, snapshot: Snapshot) -> Rollback:
    tags = store.tags.delete_after(snapshot.id)
    snapshots = store.snapshots.delete_after(snapshot.id)
    # A new tag may name one of them.
    tags += store.tags.delete_after(snapshot.id, keep=store.snapshots.is_same)
    changelogs = store.changelogs.delete_after(snapshot.id)
    path, put_back = store.paths.snapshot(snapshot.id), False
    if not store.snapshots.is_same(snapshot):  # an expiration saw the mark, or will, too late
        ids = store.snapshots.list_ids()
        is_first = not any(number < snapshot.id for number in ids)  # no rollback to an earlier one
        put_back = is_first and publish_once(store.file_io, path, snapshot_to_json(snapshot))
        if not put_back and not (is_first and store.snapshots.is_same(snapshot)):
            raise _missing_target(store, f"Snapshot {snapshot.id}")
    if not store.schemas.is_same(store.schema):
        if put_back and store.snapshots.is_same(snapshot):
            store.file_io.delete_file(path)
        message = (
            f"Table '{store.label}' was renamed or dropped while it was rolled back to snapshot "
            f"{snapshot.id}; some later snapshots may still be there. Roll it back once more under "
            "its new name."
        )
        raise errors.CommitUnknownError(message, table=store.label, snapshot_id=snapshot.id)
    forget_after(store, snapshot.id)
    store.snapshots.write_latest_hint(snapshot.id)
    return Rollback(snapshot=snapshot, snapshots=snapshots, tags=tags, changelogs=changelogs)


def _missing_target(store: FileStore, target: str) -> errors.NotFoundError:
    message = (
        f"{target} of table '{store.label}' was deleted during the rollback to it; "
        "nothing was changed."
    )
    return errors.NotFoundError(message, kind="snapshot-not-found", table=store.label)
