"""Commits, rollbacks and snapshots."""

from http import HTTPStatus

from paimon_assets.engine.codec.rest.documents import (
    CommitRequest,
    CommitResponse,
    ListSnapshotsResponse,
    RollbackRequest,
    RollbackSchemaRequest,
    SnapshotInstant,
    SnapshotResponse,
    TableSnapshot,
    VersionSnapshotResponse,
)
from paimon_assets.engine.codec.rest.structure import ABSENT
from paimon_assets.engine.control.catalog.catalog import missing_table
from paimon_assets.engine.control.commit.external_snapshot import publish_external
from paimon_assets.engine.control.managers.numbered_files import number_of
from paimon_assets.engine.control.rollback import rollback_schema
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.paths import EARLIEST, LATEST
from paimon_assets.server.principals import Action
from paimon_assets.server.request import MOST_RESULTS, Refusal, Request, page_token
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import ServedTable, Service
from paimon_assets.server.sums import table_sums


def commit_table(service: Service, request: Request) -> Answer:
    """Publish a snapshot, if it is the next one."""
    table = service.table(request, Action.UPDATE)
    asked = request.read(CommitRequest)
    request.noted["snapshot"] = asked.snapshot.id
    if table.identity is None or asked.table_id != table.identity.id:
        raise missing_table(table.identifier)
    base = asked.base_snapshot_uuid
    done = publish_external(
        table.managed(service).store,
        asked.snapshot,
        base_uuid=None if base is ABSENT else base,
        compares_base=base is not ABSENT,
    )
    request.noted["success"] = done
    return CommitResponse(success=done).to_json()


def rollback_table(service: Service, request: Request) -> Answer:
    """Make a snapshot the newest again."""
    table = service.table(request, Action.ALTER).managed(service)
    asked = request.read(RollbackRequest)
    latest = table.store.newest()
    if asked.from_snapshot is not None and (latest is None or latest.id != asked.from_snapshot):
        newest = "there is none" if latest is None else f"it is {latest.id}"
        raise Refusal(
            HTTPStatus.CONFLICT,
            f"The newest snapshot is not {asked.from_snapshot}, {newest}.",
            "SNAPSHOT",
            str(asked.from_snapshot),
        )
    instant = asked.instant
    target = instant.snapshot_id if isinstance(instant, SnapshotInstant) else instant.tag_name
    request.noted["target"] = target
    table.table.rollback_to(target)
    return None


def rollback_table_schema(service: Service, request: Request) -> Answer:
    """Make a schema the newest again."""
    table = service.table(request, Action.ALTER).managed(service)
    asked = request.read(RollbackSchemaRequest)
    request.noted["schema"] = asked.schema_id
    rollback_schema(table.store, asked.schema_id)
    return None


def get_table_snapshot(service: Service, request: Request) -> Answer:
    """Answer the newest snapshot, and the numbers of the table."""
    table = service.table(request, Action.DESCRIBE)
    latest = table.store.newest()
    if latest is None:
        raise _missing(table, LATEST)
    sums = table_sums(table.store, latest)
    snapshot = TableSnapshot(
        snapshot=latest,
        record_count=latest.total_record_count,
        file_size_in_bytes=sums.file_size_in_bytes,
        file_count=sums.file_count,
        last_file_creation_time=sums.last_file_creation_time,
    )
    return SnapshotResponse(snapshot=snapshot).to_json()


def get_version_snapshot(service: Service, request: Request) -> Answer:
    """Answer a snapshot by its id, as the oldest, as the newest, or by its tag."""
    table = service.table(request, Action.DESCRIBE)
    version = request.names["version"]
    snapshots, number = table.store.snapshots, number_of(version)
    if version == EARLIEST:
        number = snapshots.earliest_id()
    if version == LATEST:
        snapshot = table.store.newest()
    elif number is not None:
        snapshot = snapshots.snapshot_or_none(number)
    else:
        tag = None if version == EARLIEST else table.store.tags.get_or_none(version)
        snapshot = None if tag is None else tag.snapshot
    if snapshot is None:
        raise _missing(table, version)
    return VersionSnapshotResponse(snapshot=snapshot).to_json()


def list_snapshots(service: Service, request: Request) -> Answer:
    """List snapshots, the newest first."""
    table = service.table(request, Action.DESCRIBE)
    page = request.page()
    before = number_of(page.after) if page.after else None
    ids = [id_ for id_ in table.store.snapshots.list_ids() if before is None or id_ < before]
    taken = sorted(ids, reverse=True)[: min(page.most, MOST_RESULTS)]
    found = [table.store.snapshots.snapshot_or_none(id_) for id_ in taken]
    more = len(taken) < len(ids)
    return ListSnapshotsResponse(
        snapshots=tuple(snapshot for snapshot in found if snapshot is not None),
        next_page_token=page_token(str(taken[-1])) if more else None,
    ).to_json()


def _missing(table: ServedTable, version: str) -> NotFoundError:
    return NotFoundError(
        f"Table '{table.identifier}' has no snapshot '{version}'.",
        kind="snapshot-not-found",
        details={"snapshot": version},
    )
