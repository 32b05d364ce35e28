"""Partitions: numbers from manifests, and a document of what only a catalog stores.

<table>/rest/partitions-N.json      name of the partition → created, done, when and by whom
"""

from collections.abc import Iterable, Mapping
from typing import cast

from paimon_assets.engine.codec.rest.documents import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DropPartitionsRequest,
    DropPartitionsResponse,
    ListPartitionsResponse,
    Partition,
    PartitionsRequest,
)
from paimon_assets.engine.control.catalog.catalog_state import Members, NumberedDocument
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.simple_stats import PartitionStatistics
from paimon_assets.engine.spec.partition import escape
from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request, not_implemented
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import ServedTable, Service
from paimon_assets.server.sums import partition_sums

Spec = Mapping[str, str]
_DOCUMENT = "partitions"
_CREATED, _DONE = "created", "done"


def list_partitions(service: Service, request: Request) -> Answer:
    """List partitions by name."""
    table = _partitioned(service, request, Action.DESCRIBE)
    known = _all(table)
    names, token = request.page("partitionNamePattern").of(sorted(known))
    partitions = tuple(known[name] for name in names)
    return ListPartitionsResponse(partitions=partitions, next_page_token=token).to_json()


def list_partitions_by_names(service: Service, request: Request) -> Answer:
    """Answer the partitions of some specs, as far as there are any."""
    table = _partitioned(service, request, Action.DESCRIBE)
    names = _names(table, request.read(PartitionsRequest).specs)
    known = _all(table)
    partitions = tuple(known[name] for name in names if name in known)
    return ListPartitionsResponse(partitions=partitions).to_json()


def create_partitions(service: Service, request: Request) -> Answer:
    """Note partitions that hold no file yet."""
    table = _partitioned(service, request, Action.UPDATE)
    asked = request.read(CreatePartitionsRequest)
    names = _names(table, asked.partition_specs)
    known = _all(table)
    existed = [name for name in names if name in known]
    if existed and not asked.ignore_if_exists:
        raise AlreadyExistsError(
            f"Table '{table.identifier}' has a partition '{existed[0]}' already.",
            kind="partition-exists",
            details={"partition": existed[0]},
        )
    fresh = [name for name in names if name not in known]
    _note(service, request, table, {name: names[name] for name in fresh}, {_CREATED: True})
    return CreatePartitionsResponse(
        created=tuple(names[name] for name in fresh), existed=tuple(names[name] for name in existed)
    ).to_json()


def mark_done_partitions(service: Service, request: Request) -> Answer:
    """Note that partitions are done."""
    table = _partitioned(service, request, Action.UPDATE)
    names = _names(table, request.read(PartitionsRequest).specs)
    _note(service, request, table, names, {_DONE: True})
    return None


def drop_partitions(service: Service, request: Request) -> Answer:
    """Empty partitions in one snapshot, and forget them."""
    table = _partitioned(service, request, Action.UPDATE)
    asked = request.read(DropPartitionsRequest)
    names = _names(table, asked.partition_specs)
    known = _all(table)
    missing = [name for name in names if name not in known]
    if missing and not asked.ignore_if_not_exists:
        raise NotFoundError(
            f"Table '{table.identifier}' has no partition '{missing[0]}'.",
            kind="partition-not-found",
            details={"partition": missing[0]},
        )
    dropped = [name for name in names if name in known]
    filled = [names[name] for name in dropped if known[name].file_count]
    if filled:
        table.table.drop_partitions([dict(spec) for spec in filled])
    _document(table).change(lambda m: {n: v for n, v in m.items() if n not in dropped})
    return DropPartitionsResponse(
        dropped=tuple(names[name] for name in dropped),
        missing=tuple(names[name] for name in missing),
    ).to_json()


def _partitioned(service: Service, request: Request, action: Action) -> ServedTable:
    table = service.table(request, action)
    if not table.stored.partition_keys:
        raise not_implemented("partitions of a table without partition keys")
    return table if action is Action.DESCRIBE else table.managed(service)


def _all(table: ServedTable) -> dict[str, Partition]:
    latest = table.store.newest()
    sums = [] if latest is None else partition_sums(table.store, latest)
    notes = _document(table).read()
    known = {}
    for part in sums:
        name = _name(table, part.spec)
        known[name] = _partition(part, cast("Members", notes.get(name, {})))
    for name, note in notes.items():
        if name not in known and isinstance(note, dict) and note.get(_CREATED):
            empty = PartitionStatistics(
                spec=cast("Spec", note["spec"]),
                record_count=0,
                file_size_in_bytes=0,
                file_count=0,
                last_file_creation_time=0,
                total_buckets=0,
            )
            known[name] = _partition(empty, note)
    return known


def _partition(sums: PartitionStatistics, note: Mapping[str, Json]) -> Partition:
    return Partition(
        spec=sums.spec,
        record_count=sums.record_count,
        file_size_in_bytes=sums.file_size_in_bytes,
        file_count=sums.file_count,
        last_file_creation_time=sums.last_file_creation_time,
        total_buckets=sums.total_buckets,
        done=note.get(_DONE) is True,
        updated_at=cast("int | None", note.get("updatedAt")),
        updated_by=cast("str | None", note.get("updatedBy")),
    )


def _note(
    service: Service,
    request: Request,
    table: ServedTable,
    specs: Mapping[str, Spec],
    what: Mapping[str, Json],
) -> None:
    at: Mapping[str, Json] = {
        "updatedAt": service.clock.now_millis(),
        "updatedBy": request.principal.name,
    }
    if not specs:
        return

    def noted(members: Members) -> Members:
        after = dict(members)
        for name, spec in specs.items():
            before = cast("Members", members.get(name, {}))
            after[name] = {**before, "spec": dict(spec), **what, **at}
        return after

    _document(table).change(noted)


def _document(table: ServedTable) -> NumberedDocument:
    directory = f"{table.store.paths.branch_directory}/rest"
    return NumberedDocument(table.store.file_io, directory, _DOCUMENT)


def _names(table: ServedTable, specs: Iterable[Spec]) -> dict[str, Spec]:
    """Return name → spec, in the order given."""
    return {_name(table, spec): spec for spec in specs}


def _name(table: ServedTable, spec: Spec) -> str:
    keys = table.stored.partition_keys
    if set(spec) != set(keys):
        raise InvalidInputError(
            f"A partition of table '{table.identifier}' is named by {', '.join(keys)}.",
            kind="partition-spec",
        )
    return "/".join(f"{escape(key)}={escape(spec[key])}" for key in keys)
