"""The bodies of requests, named as in Java: `org.apache.paimon.rest.requests`."""

from collections.abc import Mapping

from paimon_assets.engine.codec.rest.resources import (
    INSTANT,
    PARTITION_STATISTICS,
    VIEW_CHANGE,
    FunctionBody,
    Identifier,
    Instant,
    ViewChange,
    ViewSchema,
)
from paimon_assets.engine.codec.rest.structure import (
    ABSENT,
    BOOLEAN,
    OBJECTS,
    OPTIONAL_INTEGER,
    OPTIONAL_TEXT,
    REQUIRED_INTEGER,
    SCHEMA,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Absent,
    Structure,
    list_of,
    member,
    nested,
    optional,
)
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.metadata.simple_stats import PartitionStatistics
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.type_text import Json

_SPECS = list_of(TEXT_MAP)
_IDENTIFIER = nested(Identifier)


class CreateDatabaseRequest(Structure):
    """A database to create."""

    name: str = member(TEXT)
    options: Mapping[str, str] = member(TEXT_MAP, default={})


class AlterDatabaseRequest(Structure):
    """Options of a database to remove and to set."""

    removals: tuple[str, ...] = member(TEXTS, default=())
    updates: Mapping[str, str] = member(TEXT_MAP, default={})


class CreateTableRequest(Structure):
    """A table to create."""

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
    """The snapshot a table goes back to."""

    instant: Instant = member(INSTANT)
    from_snapshot: int | None = member(OPTIONAL_INTEGER, omitted=None, default=None)
    """Id of the newest snapshot the client saw."""


class RollbackSchemaRequest(Structure):
    """The schema a table goes back to."""

    schema_id: int = member(REQUIRED_INTEGER)


class CreateTagRequest(Structure):
    """A tag to create."""

    tag_name: str = member(TEXT)
    snapshot_id: int | None = member(OPTIONAL_INTEGER, default=None)
    """None is the newest snapshot."""
    time_retained: str | None = member(OPTIONAL_TEXT, default=None)
    """Such as `1d`; None is for ever."""
    ignore_if_exists: bool = member(BOOLEAN, omitted=False, default=False)


class CreateBranchRequest(Structure):
    """A branch to create."""

    branch: str = member(TEXT)
    from_tag: str | None = member(OPTIONAL_TEXT, default=None)


class RenameBranchRequest(Structure):
    """A branch's new name."""

    to_branch: str = member(TEXT)


class ForwardBranchRequest(Structure):
    """Make a branch the main one."""


class ResetConsumerRequest(Structure):
    """A consumer and the next snapshot it reads."""

    consumer_id: str = member(TEXT)
    next_snapshot_id: int | None = member(OPTIONAL_INTEGER, default=None)
    """None deletes the consumer."""


class AuthRequest(Structure):
    """Columns that a reader asks for."""

    select: tuple[str, ...] | None = member(optional(TEXTS), default=None)
    """None is all of them."""


class PartitionsRequest(Structure):
    """Partitions to mark as done, or to list."""

    specs: tuple[Mapping[str, str], ...] = member(_SPECS)


class CreatePartitionsRequest(Structure):
    """Partitions to create."""

    partition_specs: tuple[Mapping[str, str], ...] = member(_SPECS)
    ignore_if_exists: bool = member(BOOLEAN, default=False)


class DropPartitionsRequest(Structure):
    """Partitions to drop."""

    partition_specs: tuple[Mapping[str, str], ...] = member(_SPECS, also=("specs",))
    ignore_if_not_exists: bool = member(BOOLEAN, default=False)


class CreateViewRequest(Structure):
    """A view to create."""

    identifier: Identifier = member(_IDENTIFIER)
    schema: ViewSchema = member(nested(ViewSchema))


class AlterViewRequest(Structure):
    """Changes of a view."""

    changes: tuple[ViewChange, ...] = member(list_of(VIEW_CHANGE))


class CreateFunctionRequest(FunctionBody):
    """A function to create."""


class AlterFunctionRequest(Structure):
    """Changes of a function, kept as they are."""

    changes: tuple[Mapping[str, Json], ...] = member(list_of(OBJECTS))
