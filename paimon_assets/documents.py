"""The documents of Paimon's REST catalogs, as values: requests and responses.

`to_json` gives the members of Paimon's REST catalog, `to_dlf` those of Data Lake Formation's own
interface; `from_json` and `from_bytes` read the former. `read_document` and `write_document` do so
for values of the format, too: a schema and its changes, fields, types, snapshots.

>>> Identifier(database="sales", object="orders").to_dlf()
{'databaseName': 'sales', 'tableName': 'orders'}
"""

from paimon_assets.engine.codec.rest.bodies import (
    AddDialect as AddDialect,
    AlterTableRequest as AlterTableRequest,
    AuthRequest as AuthRequest,
    AuthResponse as AuthResponse,
    CommitRequest as CommitRequest,
    CommitResponse as CommitResponse,
    ConfigResponse as ConfigResponse,
    ConsumerInfo as ConsumerInfo,
    CreateBranchRequest as CreateBranchRequest,
    CreateTagRequest as CreateTagRequest,
    DatabaseResponse as DatabaseResponse,
    DropDialect as DropDialect,
    ErrorResponse as ErrorResponse,
    FunctionResponse as FunctionResponse,
    Identifier as Identifier,
    Instant as Instant,
    Partition as Partition,
    RemoveViewOption as RemoveViewOption,
    RollbackRequest as RollbackRequest,
    SetViewOption as SetViewOption,
    SnapshotInstant as SnapshotInstant,
    SnapshotResponse as SnapshotResponse,
    TableResponse as TableResponse,
    TableSnapshot as TableSnapshot,
    TagInstant as TagInstant,
    TagResponse as TagResponse,
    TokenResponse as TokenResponse,
    UpdateDialect as UpdateDialect,
    UpdateViewComment as UpdateViewComment,
    ViewChange as ViewChange,
    ViewResponse as ViewResponse,
    ViewSchema as ViewSchema,
    read_document as read_document,
    write_document as write_document,
)
from paimon_assets.engine.spec.evolution.schema_change import (
    Move as Move,
    SchemaChange as SchemaChange,
)
from paimon_assets.engine.spec.metadata.snapshot import (
    PartitionStatistics as PartitionStatistics,
    Snapshot as Snapshot,
)
from paimon_assets.engine.spec.schema.schema import Schema as Schema
from paimon_assets.engine.spec.types.data_types import DataField as DataField, DataType as DataType
