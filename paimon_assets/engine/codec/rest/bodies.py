"""Items of catalogs, and the bodies of requests and responses that hold them.

Named as in Java: `org.apache.paimon.rest.requests`, `org.apache.paimon.rest.responses`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Self, TypeVar, get_args

from msgspec import UNSET, UnsetType

from paimon_assets.engine.codec.json.metadata_json import UNREADABLE
from paimon_assets.engine.codec.rest import structure
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json

T = TypeVar("T")
_Unsent = Annotated[T | None, structure.Rules(dlf=None, is_omitted=True)]


class Identifier(structure.Structure):
    """A database and an item in it: a table, a branch of it (`t$branch_b`), a view."""

    database: Annotated[str, structure.Rules(also=("databaseName",), dlf="databaseName")]
    object: Annotated[str, structure.Rules(also=("tableName",), dlf="tableName")]


class Partition(structure.Structure):
    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: Annotated[int, structure.Rules(dlf=None)] = 0
    done: Annotated[bool, structure.Rules(dlf=None)] = False
    created_at: _Unsent[int] = None
    created_by: _Unsent[str] = None
    updated_at: _Unsent[int] = None
    updated_by: _Unsent[str] = None
    options: _Unsent[Mapping[str, str]] = None


class TableSnapshot(structure.Structure):
    snapshot: Snapshot
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int


class ViewSchema(structure.Structure):
    """A view: its columns and its query, in one dialect or more."""

    fields: tuple[DataField, ...]
    query: str
    """The query of dialects that `dialects` does not name."""
    dialects: Mapping[str, str] = {}
    """Name of a dialect, such as `spark`, → the query in it."""
    comment: structure.Omitted[str] = None
    options: Mapping[str, str] = {}


class _ViewChange(structure.Structure, tag_field="action"):
    """Its JSON has Java's names, such as `setOption`."""


class SetViewOption(_ViewChange, tag="setOption"):
    key: str
    value: str


class RemoveViewOption(_ViewChange, tag="removeOption"):
    key: str


class UpdateViewComment(_ViewChange, tag="updateComment"):
    """Set the view's comment; None removes it."""

    comment: Annotated[str | None, structure.Rules(also=("key",))]


class AddDialect(_ViewChange, tag="addDialect"):
    """Add the query of a dialect that has none."""

    dialect: str
    query: str


class UpdateDialect(_ViewChange, tag="updateDialect"):
    """Change the query of a dialect that has one."""

    dialect: str
    query: str


class DropDialect(_ViewChange, tag="dropDialect"):
    dialect: str


ViewChange = (
    SetViewOption | RemoveViewOption | UpdateViewComment | AddDialect | UpdateDialect | DropDialect
)


class ConsumerInfo(structure.Structure):
    consumer_id: str
    next_snapshot: Annotated[int | None, structure.Rules(also=("nextSnapshotId",))]


class _Instant(structure.Structure, tag_field="type"):
    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names, which has no `type`."""
        return {key: value for key, value in super().to_dlf().items() if key != "type"}


class SnapshotInstant(_Instant, tag="snapshot"):
    snapshot_id: structure.Needed[int]


class TagInstant(_Instant, tag="tag"):
    tag_name: str


Instant = SnapshotInstant | TagInstant


class CreateDatabaseRequest(structure.Structure):
    name: str
    options: Mapping[str, str] = {}


class AlterDatabaseRequest(structure.Structure):
    removals: tuple[str, ...] = ()
    updates: Mapping[str, str] = {}


class CreateTableRequest(structure.Structure):
    identifier: Identifier
    schema: Schema


class AlterTableRequest(structure.Structure):
    """Changes that make one schema."""

    changes: tuple[SchemaChange, ...]


class RenameRequest(structure.Structure):
    """A table or a view, and its new name."""

    source: Identifier
    destination: Identifier


class CommitRequest(structure.Structure, kw_only=True):
    """A snapshot to publish, if the table is still the one it was made for."""

    table_id: str | None
    base_snapshot_uuid: str | UnsetType | None = UNSET
    """Uuid of the snapshot before; UNSET: the client is of 1.4 and does not compare."""
    snapshot: Snapshot
    statistics: tuple[PartitionStatistics, ...]


class RollbackRequest(structure.Structure):
    instant: Instant
    from_snapshot: structure.Omitted[int] = None
    """Id of the newest snapshot the client saw."""


class RollbackSchemaRequest(structure.Structure):
    schema_id: structure.Needed[int]


class CreateTagRequest(structure.Structure):
    tag_name: str
    snapshot_id: int | None = None
    """None is the newest snapshot."""
    time_retained: str | None = None
    """Such as `1d`; None is for ever."""
    ignore_if_exists: Annotated[bool, structure.Rules(is_omitted=True)] = False


class CreateBranchRequest(structure.Structure):
    branch: str
    from_tag: str | None = None


class ForwardBranchRequest(structure.Structure):
    """Make a branch the main one."""

    keeps_main: _Unsent[bool] = None
    """Refuse if main has a commit that the branch lacks. Ours, other servers undo it."""


class ResetConsumerRequest(structure.Structure):
    consumer_id: str
    next_snapshot_id: int | None = None
    """None deletes the consumer."""


class AuthRequest(structure.Structure):
    select: tuple[str, ...] | None = None
    """None is all of them."""


class CreateViewRequest(structure.Structure):
    identifier: Identifier
    schema: ViewSchema


class AlterViewRequest(structure.Structure):
    changes: tuple[ViewChange, ...]


class Page(structure.Structure, kw_only=True):
    next_page_token: str | None = None
    """Token of the next page; None on the last one."""


class Audited(structure.Structure, kw_only=True):
    """Creator, last author and times, epoch milliseconds; 0 is not known."""

    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


class ErrorResponse(structure.Structure):
    resource_type: str | None = None
    """DATABASE, TABLE, PARTITION, COLUMN, SNAPSHOT, BRANCH, TAG, VIEW, DIALECT, FUNCTION, …"""
    resource_name: str | None = None
    message: str | None = None
    code: int = 0


class ConfigResponse(structure.Structure):
    """Options of the server: below and above those of the client."""

    defaults: Mapping[str, str] = {}
    overrides: Mapping[str, str] = {}


class DatabaseResponse(Audited):
    id: str | None
    name: str
    location: str | None = None
    options: Mapping[str, str] = {}


class TableResponse(Audited):
    id: str | None
    database: Annotated[str | None, structure.Rules(dlf=None)]
    name: str
    path: str
    is_external: Annotated[bool, structure.Rules(dlf_as_text=True)]
    schema_id: Annotated[int, structure.Rules(dlf_as_text=True, is_needed=True)]
    schema: Schema


class ViewResponse(Audited):
    id: str | None
    name: str
    schema: ViewSchema

    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names, which has no audit."""
        own = ("id", "name", "schema")
        return {key: value for key, value in super().to_dlf().items() if key in own}


class FunctionResponse(Audited):
    uuid: str | None
    name: str
    input_params: tuple[DataField, ...] = ()
    return_params: tuple[DataField, ...] = ()
    deterministic: bool = False
    definitions: Mapping[str, Json] = {}
    comment: str | None = None
    options: Mapping[str, str] = {}


class AlterDatabaseResponse(structure.Structure):
    """Which options of a database were removed and set, and which there were none of."""

    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class CommitResponse(structure.Structure):
    """Whether the snapshot was published; if not, another was faster."""

    success: structure.Needed[bool]
    """Required: an answer without it is refused."""


class TokenResponse(structure.Structure):
    token: Mapping[str, str]
    expires_at_millis: Annotated[int, structure.Rules(also=("expiresAt",))]

    def __repr__(self) -> str:
        return f"TokenResponse(expires_at_millis={self.expires_at_millis})"


class AuthResponse(structure.Structure):
    """Row filters and column masks for a reader, each as JSON text."""

    filter: structure.Omitted[tuple[str, ...]] = None
    column_masking: structure.Omitted[Mapping[str, str]] = None


class SnapshotResponse(structure.Structure):
    snapshot: TableSnapshot

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Read the document; a table snapshot may come bare."""
        inner = json.get("snapshot") if isinstance(json, dict) else None
        is_bare = isinstance(inner, dict) and "snapshot" not in inner
        return super().from_json({"snapshot": json} if is_bare else json)


class TagResponse(structure.Structure):
    tag_name: str
    snapshot: Snapshot
    tag_create_time: int | None = None
    """Epoch milliseconds."""
    tag_time_retained: str | None = None


class ListDatabasesResponse(Page):
    databases: tuple[str, ...]


class ListTablesResponse(Page):
    tables: tuple[str, ...]


class ListViewsResponse(Page):
    views: tuple[str, ...]


class ListFunctionsResponse(Page):
    functions: tuple[str, ...]


class ListBranchesResponse(structure.Structure):
    branches: tuple[str, ...]


class ListTagsResponse(Page):
    tags: tuple[str, ...]


class ListConsumersResponse(Page):
    consumers: tuple[ConsumerInfo, ...]


def _instant(json: Json) -> Instant:
    """Read an instant; without `type` its only member decides."""
    if isinstance(json, dict) and "type" not in json:
        json = {**json, "type": "snapshot" if "snapshotId" in json else "tag"}
    instant: Instant = structure.one_of(
        json, {"snapshot": SnapshotInstant, "tag": TagInstant}, "type"
    )
    return instant


structure.READERS[Instant] = _instant
# A change is named as Java writes it (`setOption`), or as its specification does (`setViewOption`).
_VIEW_CHANGES: Mapping[str, Any] = {
    **{str(kind.__struct_config__.tag): kind for kind in get_args(ViewChange)},
    **{structure.action_of(kind): kind for kind in get_args(ViewChange)},
}
structure.READERS[ViewChange] = partial(structure.one_of, kinds=_VIEW_CHANGES, tag="action")


def read_document(kind: Any, json: Json) -> Any:
    """Read a structure from its JSON; `kind` is its class, such as `Schema` or `SchemaChange`.

    >>> read_document(SchemaChange, {"action": "dropColumn", "fieldNames": ["a"]})
    DropColumn(field_names=('a',))

    Raises:
        FormatError, InvalidInputError: The JSON is not one of the structure.
    """
    try:
        default = getattr(kind, "from_json", partial(structure.read_members, kind))
        return structure.READERS.get(kind, default)(json)
    except UNREADABLE as error:
        name = getattr(kind, "__name__", "one of several structures")
        raise FormatError(f"The document is no {name}: {error}.", kind="document") from error


def write_document(value: Any, *, dlf: bool = False) -> Json:
    """Return a structure's JSON as Java writes it, or with DLF's own names.

    >>> write_document(TagInstant(tag_name="a"))
    {'type': 'tag', 'tagName': 'a'}
    """
    json: Json = structure.write_value(value, dlf=dlf)
    return json
