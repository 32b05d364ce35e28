"""The Arrow schema data files are written with: types, nullability and field ids.

Readers match columns by name; the ids, at every depth, are what other engines write since 1.0.
Source: `org.apache.paimon.format.parquet.ParquetSchemaConverter`, `SpecialFields`.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_field
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

_FIELD_ID = "PARQUET:field_id"
_COLLECTION_ID_START = 536_870_911
_IDS_PER_COLUMN = 1024


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return the schema of a data file with these columns.

    >>> from paimon_assets.engine.spec.types.data_types import bigint
    >>> file_schema([DataField(id=3, name="a", type=bigint())]).field("a").metadata
    {b'PARQUET:field_id': b'3'}
    """
    return pa.schema([_with_ids(field) for field in fields])


def _with_ids(field: DataField) -> "pa.Field[Any]":
    arrow = to_arrow_field(field)
    typed = arrow.with_type(_nested_ids(arrow.type, field.type, field.id, depth=1))
    return typed.with_metadata({_FIELD_ID: str(field.id)})


def _nested_ids(arrow: Any, data_type: DataType, column_id: int, *, depth: int) -> Any:
    """Give the fields inside a type their ids; those of collections derive from the column's."""

    def inner(field: Any, inner_type: DataType, sign: int) -> Any:
        typed = field.with_type(_nested_ids(field.type, inner_type, column_id, depth=depth + 1))
        field_id = _COLLECTION_ID_START + sign * _IDS_PER_COLUMN * column_id + sign * depth
        return typed.with_metadata({_FIELD_ID: str(field_id)})

    match data_type:
        case RowType(fields=fields):
            return pa.struct([_with_ids(field) for field in fields])
        case ArrayType(element=element):
            return pa.list_(inner(arrow.value_field, element, 1))
        case VectorType(element=element, length=length):
            return pa.list_(inner(arrow.value_field, element, 1), length)
        case MapType(key=key, value=value):
            return pa.map_(inner(arrow.key_field, key, -1), inner(arrow.item_field, value, 1))
        case MultisetType(element=element):
            count = arrow.item_field
            return pa.map_(inner(arrow.key_field, element, -1), count)
        case _:
            return arrow
