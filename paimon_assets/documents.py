"""The documents of Paimon's REST catalogs, as values: requests and responses.

`to_json` gives the members of Paimon's REST catalog, `to_dlf` those of Data Lake Formation's own
interface; `from_json` and `from_bytes` read the former.

>>> Identifier(database="sales", object="orders").to_dlf()
{'databaseName': 'sales', 'tableName': 'orders'}
"""

from paimon_assets.engine.codec.rest.documents import (
    DatabaseResponse,
    FunctionResponse,
    Identifier,
    Partition,
    SnapshotResponse,
    TableResponse,
    TableSnapshot,
    TagResponse,
    ViewResponse,
    ViewSchema,
)

__all__ = [
    "DatabaseResponse",
    "FunctionResponse",
    "Identifier",
    "Partition",
    "SnapshotResponse",
    "TableResponse",
    "TableSnapshot",
    "TagResponse",
    "ViewResponse",
    "ViewSchema",
]
