"""The bodies of responses, named as in Java: `org.apache.paimon.rest.responses`."""

from collections.abc import Mapping

from paimon_assets.engine.codec.rest.resources import (
    ConsumerInfo,
    FunctionBody,
    Identifier,
    Partition,
    TableSnapshot,
    ViewSchema,
)
from paimon_assets.engine.codec.rest.structure import (
    BOOLEAN,
    INTEGER,
    OPTIONAL_INTEGER,
    OPTIONAL_TEXT,
    REQUIRED_BOOLEAN,
    REQUIRED_INTEGER,
    SCHEMA,
    SNAPSHOT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Structure,
    list_of,
    member,
    nested,
    optional,
)
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.type_text import Json

_SPECS = list_of(TEXT_MAP)
_IDENTIFIERS = list_of(nested(Identifier))


class Page(Structure):
    """One page of a list."""

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
    """The error and its resource."""

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
    """A database."""

    id: str | None = member(OPTIONAL_TEXT)
    name: str = member(TEXT)
    location: str | None = member(OPTIONAL_TEXT, default=None)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class TableResponse(Audited):
    """A table: its id, its path, its newest schema."""

    id: str | None = member(OPTIONAL_TEXT)
    database: str | None = member(OPTIONAL_TEXT, dlf=None, default=None)
    name: str = member(TEXT)
    path: str = member(TEXT)
    is_external: bool = member(BOOLEAN, dlf_as_text=True, default=False)
    schema_id: int = member(REQUIRED_INTEGER, dlf_as_text=True)
    schema: Schema = member(SCHEMA)


class ViewResponse(Audited):
    """A view."""

    id: str | None = member(OPTIONAL_TEXT)
    name: str = member(TEXT)
    schema: ViewSchema = member(nested(ViewSchema))

    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names, which has no audit."""
        own = ("id", "name", "schema")
        return {key: value for key, value in super().to_dlf().items() if key in own}


class FunctionResponse(FunctionBody, Audited):
    """A function."""

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
    """Credentials for a table's files, and their end."""

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
    """The newest snapshot of a table, with the table's numbers."""

    snapshot: TableSnapshot = member(nested(TableSnapshot))

    @classmethod
    def reshaped(cls, json: dict[str, Json]) -> dict[str, Json]:
        """Wrap a table snapshot that comes bare."""
        inner = json.get("snapshot")
        return {"snapshot": json} if isinstance(inner, dict) and "snapshot" not in inner else json


class VersionSnapshotResponse(Structure):
    """One snapshot of a table."""

    snapshot: Snapshot = member(SNAPSHOT)


class TagResponse(Structure):
    """A tag and its snapshot."""

    tag_name: str = member(TEXT)
    snapshot: Snapshot = member(SNAPSHOT)
    tag_create_time: int | None = member(OPTIONAL_INTEGER, default=None)
    """Epoch milliseconds."""
    tag_time_retained: str | None = member(OPTIONAL_TEXT, default=None)


class CreatePartitionsResponse(Structure):
    """Which partitions were created, and which existed."""

    created: tuple[Mapping[str, str], ...] = member(_SPECS, default=())
    existed: tuple[Mapping[str, str], ...] = member(_SPECS, default=())


class DropPartitionsResponse(Structure):
    """Which partitions were dropped, and which there were not."""

    dropped: tuple[Mapping[str, str], ...] = member(_SPECS, default=())
    missing: tuple[Mapping[str, str], ...] = member(_SPECS, default=())


class ListDatabasesResponse(Page):
    """A page of databases' names."""

    databases: tuple[str, ...] = member(TEXTS)


class ListTablesResponse(Page):
    """A page of tables' names."""

    tables: tuple[str, ...] = member(TEXTS)


class ListTableDetailsResponse(Page):
    """A page of tables."""

    table_details: tuple[TableResponse, ...] = member(list_of(nested(TableResponse)))


class ListTablesGloballyResponse(Page):
    """A page of the tables of all databases."""

    tables: tuple[Identifier, ...] = member(_IDENTIFIERS)


class ListViewsResponse(Page):
    """A page of views' names."""

    views: tuple[str, ...] = member(TEXTS)


class ListViewDetailsResponse(Page):
    """A page of views."""

    view_details: tuple[ViewResponse, ...] = member(list_of(nested(ViewResponse)))


class ListViewsGloballyResponse(Page):
    """A page of the views of all databases."""

    views: tuple[Identifier, ...] = member(_IDENTIFIERS, also=("tables",))


class ListFunctionsResponse(Page):
    """A page of functions' names."""

    functions: tuple[str, ...] = member(TEXTS)


class ListFunctionDetailsResponse(Page):
    """A page of functions."""

    function_details: tuple[FunctionResponse, ...] = member(list_of(nested(FunctionResponse)))


class ListFunctionsGloballyResponse(Page):
    """A page of the functions of all databases."""

    functions: tuple[Identifier, ...] = member(_IDENTIFIERS)


class ListSnapshotsResponse(Page):
    """A page of snapshots, in an order each server chooses."""

    snapshots: tuple[Snapshot, ...] = member(list_of(SNAPSHOT))


class ListPartitionsResponse(Page):
    """A page of partitions."""

    partitions: tuple[Partition, ...] = member(list_of(nested(Partition)))


class ListBranchesResponse(Structure):
    """The names of a table's branches."""

    branches: tuple[str, ...] = member(TEXTS)


class ListTagsResponse(Page):
    """A page of tags' names."""

    tags: tuple[str, ...] = member(TEXTS)


class ListConsumersResponse(Page):
    """A page of consumers."""

    consumers: tuple[ConsumerInfo, ...] = member(list_of(nested(ConsumerInfo)))
