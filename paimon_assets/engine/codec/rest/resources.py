"""Items of catalogs in requests and responses: a name, the whole item, or a page of them."""

from collections.abc import Mapping
from dataclasses import asdict

from paimon_assets.engine.codec.rest.structure import (
    BOOLEAN,
    FIELDS,
    INTEGER,
    OBJECTS,
    OPTIONAL_INTEGER,
    OPTIONAL_TEXT,
    REQUIRED_INTEGER,
    SNAPSHOT,
    TEXT,
    TEXT_MAP,
    Kind,
    Structure,
    member,
    one_of,
    optional,
)
from paimon_assets.engine.spec.metadata.simple_stats import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json


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
    """A partition and its numbers."""

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
    """A snapshot and the numbers of its table."""

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
    """Set an option of the view."""

    key: str = member(TEXT)
    value: str = member(TEXT)


class RemoveViewOption(Structure):
    """Remove an option of the view."""

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
    """Remove a dialect and its query."""

    dialect: str = member(TEXT)


ViewChange = (
    SetViewOption | RemoveViewOption | UpdateViewComment | AddDialect | UpdateDialect | DropDialect
)
"""One change."""

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
    """A consumer and the next snapshot it reads."""

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
    """A snapshot by its id."""

    snapshot_id: int = member(REQUIRED_INTEGER)


class TagInstant(Structure):
    """A snapshot by its tag."""

    tag_name: str = member(TEXT)


Instant = SnapshotInstant | TagInstant
_TYPED: Kind[Instant] = one_of("type", {"snapshot": SnapshotInstant, "tag": TagInstant})


def _instant(json: Json) -> Instant:
    if isinstance(json, dict) and "type" not in json:
        return _TYPED.read({**json, "type": "snapshot" if "snapshotId" in json else "tag"})
    return _TYPED.read(json)


INSTANT: Kind[Instant] = Kind(_instant, _TYPED.write, lambda instant: instant.to_dlf())
"""The kind of a member that is an instant; without `type` it is what its member says."""
