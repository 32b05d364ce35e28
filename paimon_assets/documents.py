"""The documents of Paimon's REST catalogs, as values: requests and responses.

`to_json` gives the members of Paimon's REST catalog, `to_dlf` those of Data Lake Formation's own
interface; `from_json` and `from_bytes` read the former. `read_document` and `write_document` do so
for values of the format, too: a schema and its changes, fields, types, snapshots.

>>> Identifier(database="sales", object="orders").to_dlf()
{'databaseName': 'sales', 'tableName': 'orders'}
"""

from paimon_assets.engine.codec.rest.bodies import (
    AddDialect,
    AlterTableRequest,
    AuthRequest,
    AuthResponse,
    CommitRequest,
    CommitResponse,
    ConfigResponse,
    ConsumerInfo,
    CreateBranchRequest,
    CreateTagRequest,
    DatabaseResponse,
    DropDialect,
    ErrorResponse,
    FunctionResponse,
    Identifier,
    Instant,
    Partition,
    RemoveViewOption,
    RollbackRequest,
    SetViewOption,
    SnapshotInstant,
    SnapshotResponse,
    TableResponse,
    TableSnapshot,
    TagInstant,
    TagResponse,
    TokenResponse,
    UpdateDialect,
    UpdateViewComment,
    ViewChange,
    ViewResponse,
    ViewSchema,
    read_document,
    write_document,
)
from paimon_assets.engine.spec.evolution.schema_change import Move, SchemaChange
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField, DataType

__all__ = [
    "AddDialect",
    "AlterTableRequest",
    "AuthRequest",
    "AuthResponse",
    "CommitRequest",
    "CommitResponse",
    "ConfigResponse",
    "ConsumerInfo",
    "CreateBranchRequest",
    "CreateTagRequest",
    "DataField",
    "DataType",
    "DatabaseResponse",
    "DropDialect",
    "ErrorResponse",
    "FunctionResponse",
    "Identifier",
    "Instant",
    "Move",
    "Partition",
    "PartitionStatistics",
    "RemoveViewOption",
    "RollbackRequest",
    "Schema",
    "SchemaChange",
    "SetViewOption",
    "Snapshot",
    "SnapshotInstant",
    "SnapshotResponse",
    "TableResponse",
    "TableSnapshot",
    "TagInstant",
    "TagResponse",
    "TokenResponse",
    "UpdateDialect",
    "UpdateViewComment",
    "ViewChange",
    "ViewResponse",
    "ViewSchema",
    "read_document",
    "write_document",
]
