"""Snapshots, tags, branches, consumers and partitions of a table, and their numbers.

Numbers are read from manifests, updated from those of the snapshot before where possible. Facts of
partitions that only a catalog stores are a document:

    <table>/rest/partitions-N.json      name of the partition → created, done, when and by whom
"""

import datetime as dt
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from threading import Lock
from typing import Any, cast

from msgspec import UNSET

from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.control.catalog.catalog import missing_table
from paimon_assets.engine.control.catalog.catalog_state import Members, NumberedDocument
from paimon_assets.engine.control.commit.commit_files import partition_statistics
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import follow_change
from paimon_assets.engine.control.managers.numbered_files import number_of, prefixed_files
from paimon_assets.engine.control.rollback import rollback_schema
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.manifest import ManifestFileMeta
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot
from paimon_assets.engine.spec.options.all_options import parse_duration_ms
from paimon_assets.engine.spec.partition import escape
from paimon_assets.engine.spec.paths import EARLIEST, LATEST, TAG_PREFIX
from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.server import bodies as own_bodies
from paimon_assets.server.external_snapshot import publish_external
from paimon_assets.server.principals import Action
from paimon_assets.server.request import (
    MOST_RESULTS,
    Answer,
    Refusal,
    Request,
    bad_request,
    not_implemented,
    page_token,
)
from paimon_assets.server.service import ServedTable, Service

Spec = Mapping[str, str]
_DOCUMENT = "partitions"
_CREATED, _DONE = "created", "done"
_MOST_TABLES = 4096
"""Tables whose numbers a process remembers; it counts further tables at each request."""
_NUMBERS = PartitionStatistics.__struct_fields__

_lock = Lock()
_newest: OrderedDict[str, bodies.TableSnapshot] = OrderedDict()
"""Table → the newest snapshot that this process has counted."""


def commit_table(service: Service, request: Request) -> Answer:
    """Publish a snapshot, if it is the next one."""
    table = service.table(request, Action.UPDATE)
    body = request.read(bodies.CommitRequest)
    request.noted["snapshot"] = body.snapshot.id
    if table.identity is None or body.table_id != table.identity.id:
        raise missing_table(table.identifier)
    base = body.base_snapshot_uuid
    done = publish_external(
        table.require_managed(service).store,
        body.snapshot,
        base_uuid=None if base is UNSET else base,
        compares_base=base is not UNSET,
    )
    request.noted["success"] = done
    return bodies.CommitResponse(success=done).to_json()


def rollback_table(service: Service, request: Request) -> None:
    table = service.table(request, Action.ALTER).require_managed(service)
    body = request.read(bodies.RollbackRequest)
    latest = table.store.snapshots.latest()
    if body.from_snapshot is not None and (latest is None or latest.id != body.from_snapshot):
        newest = "there is none" if latest is None else f"it is {latest.id}"
        raise Refusal(
            HTTPStatus.CONFLICT,
            f"The newest snapshot is not {body.from_snapshot}, {newest}.",
            "SNAPSHOT",
            str(body.from_snapshot),
        )
    instant = body.instant
    target = (
        instant.snapshot_id if isinstance(instant, bodies.SnapshotInstant) else instant.tag_name
    )
    request.noted["target"] = target
    table.table.rollback_to(target)


def rollback_table_schema(service: Service, request: Request) -> None:
    table = service.table(request, Action.ALTER).require_managed(service)
    body = request.read(bodies.RollbackSchemaRequest)
    request.noted["schema"] = body.schema_id
    rollback_schema(table.store, body.schema_id)


def get_table_snapshot(service: Service, request: Request) -> Answer:
    table = service.table(request, Action.DESCRIBE)
    latest = table.store.snapshots.latest()
    if latest is None:
        raise _missing(table, LATEST)
    counted = counted_snapshot(table.store, latest)
    return bodies.SnapshotResponse(snapshot=counted).to_json()


def get_version_snapshot(service: Service, request: Request) -> Answer:
    """Answer a snapshot by its id, as the oldest, as the newest, or by its tag."""
    table = service.table(request, Action.DESCRIBE)
    version = request.names["version"]
    snapshots, number = table.store.snapshots, number_of(version)
    if version == EARLIEST:
        number = snapshots.earliest_id()
    if version == LATEST:
        snapshot = table.store.snapshots.latest()
    elif number is not None:
        snapshot = snapshots.snapshot_or_none(number)
    else:
        tag = None if version == EARLIEST else table.store.tags.get_or_none(version)
        snapshot = None if tag is None else tag.snapshot
    if snapshot is None:
        raise _missing(table, version)
    return own_bodies.VersionSnapshotResponse(snapshot=snapshot).to_json()


def list_snapshots(service: Service, request: Request) -> Answer:
    table = service.table(request, Action.DESCRIBE)
    page = request.page()
    before = number_of(page.after) if page.after else None
    ids = [id_ for id_ in table.store.snapshots.list_ids() if before is None or id_ < before]
    newest = sorted(ids, reverse=True)[: min(page.most, MOST_RESULTS)]
    snapshots = [table.store.snapshots.snapshot_or_none(id_) for id_ in newest]
    more = len(newest) < len(ids)
    return own_bodies.ListSnapshotsResponse(
        snapshots=tuple(snapshot for snapshot in snapshots if snapshot is not None),
        next_page_token=page_token(str(newest[-1])) if more else None,
    ).to_json()


def _missing(table: ServedTable, version: str) -> NotFoundError:
    message = f"Table '{table.identifier}' has no snapshot '{version}'."
    return NotFoundError(message, kind="snapshot-not-found", snapshot=version)


def list_tags(service: Service, request: Request) -> Answer:
    store = service.table(request, Action.DESCRIBE).store
    page, prefix = request.page(), request.query.get("tagNamePrefix", "")
    names = prefixed_files(store.file_io, store.paths.tag_directory, TAG_PREFIX)
    found, token = page.of(sorted(name for name in names if name.startswith(prefix)))
    return bodies.ListTagsResponse(tags=tuple(found), next_page_token=token).to_json()


def create_tag(service: Service, request: Request) -> None:
    table = service.table(request, Action.UPDATE).require_managed(service)
    body = request.read(bodies.CreateTagRequest)
    request.noted["tag"] = body.tag_name
    retained, text = None, body.time_retained
    if text is not None and text.strip():
        try:
            retained = dt.timedelta(milliseconds=parse_duration_ms(text))
        except (ValueError, OverflowError) as error:
            raise bad_request(f"timeRetained {text!r} is no duration such as '1 d'.") from error
    table.table.tags.create(
        body.tag_name,
        body.snapshot_id,
        time_retained=retained,
        ignore_if_exists=body.ignore_if_exists,
    )


def get_tag(service: Service, request: Request) -> Answer:
    tag = service.table(request, Action.DESCRIBE).store.tags.get(request.names["tag"])
    created, retained = tag.create_time, tag.time_retained
    return bodies.TagResponse(
        tag_name=tag.name,
        snapshot=tag.snapshot,
        tag_create_time=None if created is None else int(created.timestamp() * 1000),
        tag_time_retained=None if retained is None else f"PT{int(retained.total_seconds())}S",
    ).to_json()


def delete_tag(service: Service, request: Request) -> None:
    """Delete a tag, with the files that only it kept."""
    service.table(request, Action.UPDATE).require_managed(service).table.tags.delete(
        request.names["tag"]
    )


def list_branches(service: Service, request: Request) -> Answer:
    names = service.table(request, Action.DESCRIBE).store.branches.list()
    return bodies.ListBranchesResponse(branches=tuple(names)).to_json()


def create_branch(service: Service, request: Request) -> None:
    table = service.table(request, Action.UPDATE).require_managed(service)
    body = request.read(bodies.CreateBranchRequest)
    request.noted["branch"] = body.branch
    table.store.branches.create(body.branch, tag=body.from_tag or None)


def drop_branch(service: Service, request: Request) -> None:
    table = service.table(request, Action.UPDATE).require_managed(service)
    table.store.branches.delete(request.names["branch"])


def rename_branch(service: Service, request: Request) -> None:
    table = service.table(request, Action.UPDATE).require_managed(service)
    body = request.read(own_bodies.RenameBranchRequest)
    request.noted["target"] = body.to_branch
    table.store.branches.rename(request.names["branch"], body.to_branch)


def forward_branch(service: Service, request: Request) -> None:
    """Make the main branch equal to a branch."""
    table = service.table(request, Action.UPDATE).require_managed(service)
    body = request.read(bodies.ForwardBranchRequest)
    table.store.branches.fast_forward(request.names["branch"], keeps_main=bool(body.keeps_main))
    follow_change(table.store)


def list_consumers(service: Service, request: Request) -> Answer:
    positions = service.table(request, Action.DESCRIBE).store.consumers.list()
    names, token = request.page().of(sorted(positions))
    consumers = tuple(bodies.ConsumerInfo(consumer_id=n, next_snapshot=positions[n]) for n in names)
    return bodies.ListConsumersResponse(consumers=consumers, next_page_token=token).to_json()


def reset_consumer(service: Service, request: Request) -> None:
    """Let a consumer continue at a snapshot, or forget it."""
    consumers = service.table(request, Action.UPDATE).require_managed(service).store.consumers
    body = request.read(bodies.ResetConsumerRequest)
    request.noted["consumer"] = body.consumer_id
    if body.next_snapshot_id is None:
        consumers.delete(body.consumer_id)
    else:
        consumers.reset(body.consumer_id, body.next_snapshot_id)


def list_partitions(service: Service, request: Request) -> Answer:
    table = _partitioned_table(service, request, Action.DESCRIBE)
    known = _all(table)
    names, token = request.page("partitionNamePattern").of(sorted(known))
    partitions = tuple(known[name] for name in names)
    return own_bodies.ListPartitionsResponse(partitions=partitions, next_page_token=token).to_json()


def list_partitions_by_names(service: Service, request: Request) -> Answer:
    """Answer the partitions of some specs, as far as there are any."""
    table = _partitioned_table(service, request, Action.DESCRIBE)
    names = _names(table, request.read(own_bodies.PartitionsRequest).specs)
    known = _all(table)
    partitions = tuple(known[name] for name in names if name in known)
    return own_bodies.ListPartitionsResponse(partitions=partitions).to_json()


def create_partitions(service: Service, request: Request) -> Answer:
    """Note partitions that hold no file yet."""
    table = _partitioned_table(service, request, Action.UPDATE)
    body = request.read(own_bodies.CreatePartitionsRequest)
    names = _names(table, body.partition_specs)
    known = _all(table)
    existed = [name for name in names if name in known]
    if existed and not body.ignore_if_exists:
        message = f"Table '{table.identifier}' has a partition '{existed[0]}' already."
        raise AlreadyExistsError(message, kind="partition-exists", partition=existed[0])
    fresh = [name for name in names if name not in known]
    _note(service, request, table, {name: names[name] for name in fresh}, {_CREATED: True})
    return own_bodies.CreatePartitionsResponse(
        created=tuple(names[name] for name in fresh), existed=tuple(names[name] for name in existed)
    ).to_json()


def mark_done_partitions(service: Service, request: Request) -> None:
    table = _partitioned_table(service, request, Action.UPDATE)
    names = _names(table, request.read(own_bodies.PartitionsRequest).specs)
    _note(service, request, table, names, {_DONE: True})


def drop_partitions(service: Service, request: Request) -> Answer:
    """Empty partitions in one snapshot, and forget them."""
    table = _partitioned_table(service, request, Action.UPDATE)
    body = request.read(own_bodies.DropPartitionsRequest)
    names = _names(table, body.partition_specs)
    known = _all(table)
    missing = [name for name in names if name not in known]
    if missing and not body.ignore_if_not_exists:
        message = f"Table '{table.identifier}' has no partition '{missing[0]}'."
        raise NotFoundError(message, kind="partition-not-found", partition=missing[0])
    dropped = [name for name in names if name in known]
    filled = [names[name] for name in dropped if known[name].file_count]
    if filled:
        table.table.drop_partitions([dict(spec) for spec in filled])
    _document(table).change(lambda m: {n: v for n, v in m.items() if n not in dropped})
    return own_bodies.DropPartitionsResponse(
        dropped=tuple(names[name] for name in dropped),
        missing=tuple(names[name] for name in missing),
    ).to_json()


def _partitioned_table(service: Service, request: Request, action: Action) -> ServedTable:
    table = service.table(request, action)
    if not table.stored.partition_keys:
        raise not_implemented("partitions of a table without partition keys")
    return table if action is Action.DESCRIBE else table.require_managed(service)


def _all(table: ServedTable) -> dict[str, bodies.Partition]:
    """Return the partitions that hold files, or were created, by name. Cost: all manifests."""
    latest = table.store.snapshots.latest()
    metas = () if latest is None else table.store.manifests.manifests_of(latest)
    known: dict[str, dict[str, Any]] = {
        _name(table, part.spec): {name: getattr(part, name) for name in _NUMBERS}
        for part in _sums(table.store, metas)
        if part.file_count > 0
    }
    notes: dict[str, Any] = _document(table).read()
    for name, note in notes.items():
        if note.get(_CREATED):
            known.setdefault(name, {**dict.fromkeys(_NUMBERS, 0), "spec": note["spec"]})
    for name, members in known.items():
        note = notes.get(name, {})
        members["done"] = note.get(_DONE) is True
        members |= {"updated_at": note.get("updatedAt"), "updated_by": note.get("updatedBy")}
    return {name: bodies.Partition(**members) for name, members in known.items()}


def _note(
    service: Service,
    request: Request,
    table: ServedTable,
    specs: Mapping[str, Spec],
    changes: Mapping[str, Json],
) -> None:
    at: Mapping[str, Json] = {
        "updatedAt": service.clock.now_millis(),
        "updatedBy": request.principal.name,
    }
    if not specs:
        return

    def note_tag(members: Members) -> Members:
        after = dict(members)
        for name, spec in specs.items():
            before = cast("Members", members.get(name, {}))
            after[name] = {**before, "spec": dict(spec), **changes, **at}
        return after

    _document(table).change(note_tag)


def _document(table: ServedTable) -> NumberedDocument:
    directory = f"{table.store.paths.branch_directory}/rest"
    return NumberedDocument(table.store.file_io, directory, _DOCUMENT)


def _names(table: ServedTable, specs: Iterable[Spec]) -> dict[str, Spec]:
    return {_name(table, spec): spec for spec in specs}


def _name(table: ServedTable, spec: Spec) -> str:
    keys = table.stored.partition_keys
    if set(spec) != set(keys):
        message = f"A partition of table '{table.identifier}' is named by {', '.join(keys)}."
        raise InvalidInputError(message, kind="partition-spec")
    return "/".join(f"{escape(key)}={escape(spec[key])}" for key in keys)


def counted_snapshot(store: FileStore, snapshot: Snapshot) -> bodies.TableSnapshot:
    """Return a snapshot's numbers; the last commit's are added to those before, if known.

    Files that are gone count for the time of the youngest.
    """
    path = store.paths.snapshot_directory
    with _lock:
        known = _newest.get(path)
    if known is not None and known.snapshot.name == snapshot.name:
        return known
    is_next = known is not None and snapshot.id == known.snapshot.id + 1
    parts: list[PartitionStatistics | bodies.TableSnapshot]
    if known is not None and is_next and store.snapshots.is_same(known.snapshot):  # ids come again
        parts = [known, *_sums(store, store.manifests.read_list(snapshot.delta_manifest_list))]
    else:
        parts = [*_sums(store, store.manifests.manifests_of(snapshot))]
    counted = bodies.TableSnapshot(
        snapshot=snapshot,
        record_count=snapshot.total_record_count,
        file_size_in_bytes=sum(part.file_size_in_bytes for part in parts),
        file_count=sum(part.file_count for part in parts),
        last_file_creation_time=max((part.last_file_creation_time for part in parts), default=0),
    )
    with _lock:
        _newest[path] = counted
        _newest.move_to_end(path)
        while len(_newest) > _MOST_TABLES:
            _newest.popitem(last=False)
    return counted


def _sums(store: FileStore, metas: tuple[ManifestFileMeta, ...]) -> list[PartitionStatistics]:
    return partition_statistics(store.partitions, store.manifests.read_all(metas))
