"""Items of catalogs, and the bodies of requests and responses that hold them.

Named as in Java: `org.apache.paimon.rest.requests`, `org.apache.paimon.rest.responses`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from paimon_assets.engine.codec.rest.structure import (
    ABSENT,
    BOOLEAN,
    FIELDS,
    INTEGER,
    OBJECTS,
    OPTIONAL_INTEGER,
    OPTIONAL_TEXT,
    REQUIRED_BOOLEAN,
    REQUIRED_INTEGER,
    SCHEMA,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Absent,
    Kind,
    Structure,
    list_of,
    member,
    nested,
    one_of,
    optional,
)
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.evolution.schema_change import (
    Move,
    SchemaChange,
    read_move,
    write_move,
)
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField, DataType
from paimon_assets.engine.spec.types.type_text import Json, field_to_json, parse_type, type_to_json


class Identifier(Structure):
    """A database and an item in it: a table, a branch of it (`t$branch_b`), a view."""

    database: str = member(TEXT, also=("databaseName",), dlf="databaseName")
    object: str = member(TEXT, also=("tableName",), dlf="tableName")


class _Differences(Structure):
    """The members of `PartitionStatistics`."""

    spec: Mapping[str, str] = member(TEXT_MAP)
    record_count: int = member(INTEGER)
    file_size_in_bytes: int = member(INTEGER)
    file_count: int = member(INTEGER)
    last_file_creation_time: int = member(INTEGER)
    total_buckets: int = member(INTEGER)


PARTITION_STATISTICS: Kind[PartitionStatistics] = Kind(
    lambda json: PartitionStatistics(**vars(_Differences.from_json(json))),
    lambda statistics: _Differences(**asdict(statistics)).to_json(),
)
"""The kind of a member that says what a commit changes in a partition."""


class Partition(Structure):
    spec: Mapping[str, str] = member(TEXT_MAP)
    record_count: int = member(INTEGER)
    file_size_in_bytes: int = member(INTEGER)
    file_count: int = member(INTEGER)
    last_file_creation_time: int = member(INTEGER)
    total_buckets: int = member(INTEGER, dlf=None, default=0)
    done: bool = member(BOOLEAN, dlf=None, default=False)
    created_at: int | None = member(OPTIONAL_INTEGER, omitted=None, dlf=None, default=None)
    created_by: str | None = member(OPTIONAL_TEXT, omitted=None, dlf=None, default=None)
    updated_at: int | None = member(OPTIONAL_INTEGER, omitted=None, dlf=None, default=None)
    updated_by: str | None = member(OPTIONAL_TEXT, omitted=None, dlf=None, default=None)
    options: Mapping[str, str] | None = member(
        optional(TEXT_MAP), omitted=None, dlf=None, default=None
    )


class TableSnapshot(Structure):
    snapshot: Snapshot = member(SNAPSHOT)
    record_count: int = member(INTEGER)
    file_size_in_bytes: int = member(INTEGER)
    file_count: int = member(INTEGER)
    last_file_creation_time: int = member(INTEGER)


class ViewSchema(Structure):
    """A view: its columns and its query, in one dialect or more."""

    fields: tuple[DataField, ...] = member(FIELDS)
    query: str = member(TEXT)
    """The query of dialects that `dialects` does not name."""
    dialects: Mapping[str, str] = member(TEXT_MAP, default={})
    """Name of a dialect, such as `spark`, → the query in it."""
    comment: str | None = member(OPTIONAL_TEXT, omitted=None, default=None)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class SetViewOption(Structure):
    key: str = member(TEXT)
    value: str = member(TEXT)


class RemoveViewOption(Structure):
    key: str = member(TEXT)


class UpdateViewComment(Structure):
    """Set the view's comment; None removes it."""

    comment: str | None = member(OPTIONAL_TEXT, also=("key",))


class AddDialect(Structure):
    """Add the query of a dialect that has none."""

    dialect: str = member(TEXT)
    query: str = member(TEXT)


class UpdateDialect(Structure):
    """Change the query of a dialect that has one."""

    dialect: str = member(TEXT)
    query: str = member(TEXT)


class DropDialect(Structure):
    dialect: str = member(TEXT)


ViewChange = (
    SetViewOption | RemoveViewOption | UpdateViewComment | AddDialect | UpdateDialect | DropDialect
)

VIEW_CHANGE: Kind[ViewChange] = one_of(
    "action",
    {
        "setOption": SetViewOption,
        "removeOption": RemoveViewOption,
        "updateComment": UpdateViewComment,
        "addDialect": AddDialect,
        "updateDialect": UpdateDialect,
        "dropDialect": DropDialect,
    },
    also={
        "setViewOption": "setOption",
        "removeViewOption": "removeOption",
        "updateViewComment": "updateComment",
    },
)
"""The kind of a member that is a view's change.

Written is what Java reads, such as `setOption`; `setViewOption`, a name of its specification, is
read too.
"""


class ConsumerInfo(Structure):
    consumer_id: str = member(TEXT)
    next_snapshot: int | None = member(OPTIONAL_INTEGER, also=("nextSnapshotId",))


class FunctionBody(Structure):
    """The body of a function; its definitions are kept as they are."""

    name: str = member(TEXT)
    input_params: tuple[DataField, ...] = member(FIELDS, default=())
    return_params: tuple[DataField, ...] = member(FIELDS, default=())
    deterministic: bool = member(BOOLEAN, default=False)
    definitions: Mapping[str, Json] = member(OBJECTS, default={})
    comment: str | None = member(OPTIONAL_TEXT, default=None)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class SnapshotInstant(Structure):
    snapshot_id: int = member(REQUIRED_INTEGER)


class TagInstant(Structure):
    tag_name: str = member(TEXT)


Instant = SnapshotInstant | TagInstant
_TYPED: Kind[Instant] = one_of("type", {"snapshot": SnapshotInstant, "tag": TagInstant})


def _instant(json: Json) -> Instant:
    if isinstance(json, dict) and "type" not in json:
        return _TYPED.read({**json, "type": "snapshot" if "snapshotId" in json else "tag"})
    return _TYPED.read(json)


INSTANT: Kind[Instant] = Kind(_instant, _TYPED.write, lambda instant: instant.to_dlf())
"""The kind of a member that is an instant; without `type` it is what its member says."""


_SPECS = list_of(TEXT_MAP)
_IDENTIFIER = nested(Identifier)


class CreateDatabaseRequest(Structure):
    name: str = member(TEXT)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class AlterDatabaseRequest(Structure):
    removals: tuple[str, ...] = member(TEXTS, default=())
    updates: Mapping[str, str] = member(TEXT_MAP, default={})


class CreateTableRequest(Structure):
    identifier: Identifier = member(_IDENTIFIER)
    schema: Schema = member(SCHEMA)


class AlterTableRequest(Structure):
    """Changes that make one schema."""

    changes: tuple[SchemaChange, ...] = member(list_of(SCHEMA_CHANGE))


class RegisterTableRequest(Structure):
    """A table that lies at a path already."""

    identifier: Identifier = member(_IDENTIFIER)
    path: str = member(TEXT)


class RenameRequest(Structure):
    """A table or a view, and its new name."""

    source: Identifier = member(_IDENTIFIER)
    destination: Identifier = member(_IDENTIFIER)


class CommitRequest(Structure):
    """A snapshot to publish, if the table is still the one it was made for."""

    table_id: str | None = member(OPTIONAL_TEXT)
    base_snapshot_uuid: str | Absent | None = member(OPTIONAL_TEXT, omitted=ABSENT, default=ABSENT)
    """Uuid of the snapshot before; ABSENT: the client is of 1.4 and does not compare."""
    snapshot: Snapshot = member(SNAPSHOT)
    statistics: tuple[PartitionStatistics, ...] = member(list_of(PARTITION_STATISTICS))


class RollbackRequest(Structure):
    instant: Instant = member(INSTANT)
    from_snapshot: int | None = member(OPTIONAL_INTEGER, omitted=None, default=None)
    """Id of the newest snapshot the client saw."""


class RollbackSchemaRequest(Structure):
    schema_id: int = member(REQUIRED_INTEGER)


class CreateTagRequest(Structure):
    tag_name: str = member(TEXT)
    snapshot_id: int | None = member(OPTIONAL_INTEGER, default=None)
    """None is the newest snapshot."""
    time_retained: str | None = member(OPTIONAL_TEXT, default=None)
    """Such as `1d`; None is for ever."""
    ignore_if_exists: bool = member(BOOLEAN, omitted=False, default=False)


class CreateBranchRequest(Structure):
    branch: str = member(TEXT)
    from_tag: str | None = member(OPTIONAL_TEXT, default=None)


class RenameBranchRequest(Structure):
    to_branch: str = member(TEXT)


class ForwardBranchRequest(Structure):
    """Make a branch the main one."""


class ResetConsumerRequest(Structure):
    consumer_id: str = member(TEXT)
    next_snapshot_id: int | None = member(OPTIONAL_INTEGER, default=None)
    """None deletes the consumer."""


class AuthRequest(Structure):
    select: tuple[str, ...] | None = member(optional(TEXTS), default=None)
    """None is all of them."""


class PartitionsRequest(Structure):
    """Partitions to mark as done, or to list."""

    specs: tuple[Mapping[str, str], ...] = member(_SPECS)


class CreatePartitionsRequest(Structure):
    partition_specs: tuple[Mapping[str, str], ...] = member(_SPECS)
    ignore_if_exists: bool = member(BOOLEAN, default=False)


class DropPartitionsRequest(Structure):
    partition_specs: tuple[Mapping[str, str], ...] = member(_SPECS, also=("specs",))
    ignore_if_not_exists: bool = member(BOOLEAN, default=False)


class CreateViewRequest(Structure):
    identifier: Identifier = member(_IDENTIFIER)
    schema: ViewSchema = member(nested(ViewSchema))


class AlterViewRequest(Structure):
    changes: tuple[ViewChange, ...] = member(list_of(VIEW_CHANGE))


class CreateFunctionRequest(FunctionBody):
    """A function to create."""


class AlterFunctionRequest(Structure):
    """Changes of a function, kept as they are."""

    changes: tuple[Mapping[str, Json], ...] = member(list_of(OBJECTS))


_IDENTIFIERS = list_of(nested(Identifier))


class Page(Structure):
    next_page_token: str | None = member(OPTIONAL_TEXT, default=None)
    """What asks for the next page; None: this is the last."""


class Audited(Structure):
    """Creator, last author and times, epoch milliseconds; 0 is not known."""

    owner: str | None = member(OPTIONAL_TEXT, default=None)
    created_at: int = member(INTEGER, default=0)
    created_by: str | None = member(OPTIONAL_TEXT, default=None)
    updated_at: int = member(INTEGER, default=0)
    updated_by: str | None = member(OPTIONAL_TEXT, default=None)


class ErrorResponse(Structure):
    resource_type: str | None = member(OPTIONAL_TEXT, default=None)
    """DATABASE, TABLE, PARTITION, COLUMN, SNAPSHOT, BRANCH, TAG, VIEW, DIALECT, FUNCTION, …"""
    resource_name: str | None = member(OPTIONAL_TEXT, default=None)
    message: str | None = member(OPTIONAL_TEXT, default=None)
    code: int = member(INTEGER, default=0)


class ConfigResponse(Structure):
    """Options of the server: below and above those of the client."""

    defaults: Mapping[str, str] = member(TEXT_MAP, default={})
    overrides: Mapping[str, str] = member(TEXT_MAP, default={})


class DatabaseResponse(Audited):
    id: str | None = member(OPTIONAL_TEXT)
    name: str = member(TEXT)
    location: str | None = member(OPTIONAL_TEXT, default=None)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class TableResponse(Audited):
    id: str | None = member(OPTIONAL_TEXT)
    database: str | None = member(OPTIONAL_TEXT, dlf=None, default=None)
    name: str = member(TEXT)
    path: str = member(TEXT)
    is_external: bool = member(BOOLEAN, dlf_as_text=True, default=False)
    schema_id: int = member(REQUIRED_INTEGER, dlf_as_text=True)
    schema: Schema = member(SCHEMA)


class ViewResponse(Audited):
    id: str | None = member(OPTIONAL_TEXT)
    name: str = member(TEXT)
    schema: ViewSchema = member(nested(ViewSchema))

    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names, which has no audit."""
        own = ("id", "name", "schema")
        return {key: value for key, value in super().to_dlf().items() if key in own}


class FunctionResponse(FunctionBody, Audited):
    uuid: str | None = member(OPTIONAL_TEXT, default=None)


class AlterDatabaseResponse(Structure):
    """Which options of a database were removed and set, and which there were none of."""

    removed: tuple[str, ...] = member(TEXTS, default=())
    updated: tuple[str, ...] = member(TEXTS, default=())
    missing: tuple[str, ...] = member(TEXTS, default=())


class CommitResponse(Structure):
    """Whether the snapshot was published; if not, another was faster."""

    success: bool = member(REQUIRED_BOOLEAN)
    """Must be said: an answer without it is none."""


class TokenResponse(Structure):
    token: Mapping[str, str] = member(TEXT_MAP)
    expires_at_millis: int = member(INTEGER, also=("expiresAt",))

    def __repr__(self) -> str:
        return f"TokenResponse(expires_at_millis={self.expires_at_millis})"


class AuthResponse(Structure):
    """Row filters and column masks for a reader, each as JSON text."""

    filter: tuple[str, ...] | None = member(optional(TEXTS), omitted=None, default=None)
    column_masking: Mapping[str, str] | None = member(
        optional(TEXT_MAP), omitted=None, default=None
    )


class SnapshotResponse(Structure):
    snapshot: TableSnapshot = member(nested(TableSnapshot))

    @classmethod
    def reshaped(cls, json: dict[str, Json]) -> dict[str, Json]:
        """Wrap a table snapshot that comes bare."""
        inner = json.get("snapshot")
        return {"snapshot": json} if isinstance(inner, dict) and "snapshot" not in inner else json


class VersionSnapshotResponse(Structure):
    snapshot: Snapshot = member(SNAPSHOT)


class TagResponse(Structure):
    tag_name: str = member(TEXT)
    snapshot: Snapshot = member(SNAPSHOT)
    tag_create_time: int | None = member(OPTIONAL_INTEGER, default=None)
    """Epoch milliseconds."""
    tag_time_retained: str | None = member(OPTIONAL_TEXT, default=None)


class CreatePartitionsResponse(Structure):
    created: tuple[Mapping[str, str], ...] = member(_SPECS, default=())
    existed: tuple[Mapping[str, str], ...] = member(_SPECS, default=())


class DropPartitionsResponse(Structure):
    dropped: tuple[Mapping[str, str], ...] = member(_SPECS, default=())
    missing: tuple[Mapping[str, str], ...] = member(_SPECS, default=())


class ListDatabasesResponse(Page):
    databases: tuple[str, ...] = member(TEXTS)


class ListTablesResponse(Page):
    tables: tuple[str, ...] = member(TEXTS)


class ListTableDetailsResponse(Page):
    table_details: tuple[TableResponse, ...] = member(list_of(nested(TableResponse)))


class ListTablesGloballyResponse(Page):
    tables: tuple[Identifier, ...] = member(_IDENTIFIERS)


class ListViewsResponse(Page):
    views: tuple[str, ...] = member(TEXTS)


class ListViewDetailsResponse(Page):
    view_details: tuple[ViewResponse, ...] = member(list_of(nested(ViewResponse)))


class ListViewsGloballyResponse(Page):
    views: tuple[Identifier, ...] = member(_IDENTIFIERS, also=("tables",))


class ListFunctionsResponse(Page):
    functions: tuple[str, ...] = member(TEXTS)


class ListFunctionDetailsResponse(Page):
    function_details: tuple[FunctionResponse, ...] = member(list_of(nested(FunctionResponse)))


class ListFunctionsGloballyResponse(Page):
    functions: tuple[Identifier, ...] = member(_IDENTIFIERS)


class ListSnapshotsResponse(Page):
    """A page of snapshots, in an order each server chooses."""

    snapshots: tuple[Snapshot, ...] = member(list_of(SNAPSHOT))


class ListPartitionsResponse(Page):
    partitions: tuple[Partition, ...] = member(list_of(nested(Partition)))


class ListBranchesResponse(Structure):
    branches: tuple[str, ...] = member(TEXTS)


class ListTagsResponse(Page):
    tags: tuple[str, ...] = member(TEXTS)


class ListConsumersResponse(Page):
    consumers: tuple[ConsumerInfo, ...] = member(list_of(nested(ConsumerInfo)))


VALUES: Mapping[Any, Kind[Any]] = {
    Schema: SCHEMA,
    DataField: Kind(lambda json: FIELDS.read([json])[0], field_to_json),
    DataType: Kind(parse_type, type_to_json),
    Snapshot: SNAPSHOT,
    PartitionStatistics: PARTITION_STATISTICS,
    Move: Kind(read_move, write_move),
    SchemaChange: SCHEMA_CHANGE,
    Instant: INSTANT,
    ViewChange: VIEW_CHANGE,
}
"""Structures that are values of the format, or one of several classes."""


def read_document(kind: Any, json: Json) -> Any:
    """Read a structure from its JSON; `kind` is its class, such as `Schema` or `SchemaChange`.

    >>> read_document(SchemaChange, {"action": "dropColumn", "fieldNames": ["a"]})
    DropColumn(field_names=('a',))

    Raises:
        FormatError, InvalidInputError: The JSON is not one of the structure.
    """
    plain: Kind[Any] = VALUES[kind] if kind in VALUES else nested(kind)
    try:
        return plain.read(json)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        name = getattr(kind, "__name__", "one of several structures")
        raise FormatError(f"The document is no {name}: {error}.", kind="document") from error


def write_document(value: Any, *, dlf: bool = False) -> Json:
    """Return a structure's JSON as Java writes it, or with DLF's own names.

    >>> write_document(TagInstant(tag_name="a"))
    {'type': 'tag', 'tagName': 'a'}
    """
    kind = next((kind for of, kind in VALUES.items() if isinstance(value, of)), None)
    kind = nested(type(value)) if kind is None else kind
    json: Json = (kind.dlf if dlf and kind.dlf else kind.write)(value)
    return json
