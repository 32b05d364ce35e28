"""Layout of primary-key data files: `_KEY_*`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then the columns.

Source: `org.apache.paimon.KeyValue`, `org.apache.paimon.table.SpecialFields`.
"""

from paimon_assets.engine.spec.schema.schema import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
    key_field,
)
from paimon_assets.engine.spec.types.data_types import DataField


def key_value_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the columns of a primary-key table's data files, in file order.

    Keys are stored twice: as `_KEY_<name>` and among the columns. Thin files lack the first, so
    readers use the columns.

    >>> from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
    >>> declared = Schema.of({"p": "INT", "id": "INT", "v": "INT"},
    ...                      primary_keys=["p", "id"], partition_keys=["p"])
    >>> [field.name for field in key_value_fields(first_table_schema(declared, time_millis=0))]
    ['_KEY_id', '_SEQUENCE_NUMBER', '_VALUE_KIND', 'p', 'id', 'v']
    """
    keys = (key_field(field) for field in schema.key_fields)
    return (*keys, SEQUENCE_NUMBER, VALUE_KIND, *schema.fields)
