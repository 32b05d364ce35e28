"""System columns: their names, ids and types.

Source: `org.apache.paimon.table.SpecialFields`.
"""

from collections.abc import Iterable
from dataclasses import replace

from paimon_assets.engine.spec.options.all_options import ROW_TRACKING_ENABLED
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    AtomicType,
    DataField,
    TypeRoot,
    bigint,
    not_null,
    string,
)

KEY_FIELD_PREFIX = "_KEY_"
KEY_FIELD_ID_START = 1_073_741_823
"""Id of `_KEY_<column>` is this plus the column's id."""

SEQUENCE_NUMBER = DataField(id=2_147_483_646, name="_SEQUENCE_NUMBER", type=not_null(bigint()))
VALUE_KIND = DataField(
    id=2_147_483_645, name="_VALUE_KIND", type=AtomicType(root=TypeRoot.TINYINT, nullable=False)
)
LEVEL_NAME = "_LEVEL"
ROW_KIND = DataField(id=2_147_483_643, name="rowkind", type=not_null(string()))
"""+I, -U, +U or -D of a row, in reads that keep what retracts."""
ROW_ID = DataField(id=2_147_483_642, name="_ROW_ID", type=bigint())

SYSTEM_FIELD_NAMES = frozenset(
    {SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL_NAME, ROW_KIND.name, ROW_ID.name}
)


TRACKING_FIELDS = (ROW_ID, replace(SEQUENCE_NUMBER, type=bigint()))
"""What a read of a table with row tracking may ask for; files may store them, with gaps."""


def _readable(schema: TableSchema) -> dict[str, DataField]:
    """Return the system columns that a read may ask for beside the table's own, by name."""
    tracked = schema.typed_options.get(ROW_TRACKING_ENABLED)
    return {field.name: field for field in (ROW_KIND, *(TRACKING_FIELDS if tracked else ()))}


def read_fields(schema: TableSchema, names: Iterable[str]) -> tuple[DataField, ...]:
    """Return the columns of a read, in order: the table's own, or else system columns."""
    readable = _readable(schema)
    return tuple(
        readable[name] if name in readable and name not in schema.by_name else schema.column(name)
        for name in names
    )


def is_system_name(name: str) -> bool:
    """Whether a column of this name would collide with a system column."""
    return name in SYSTEM_FIELD_NAMES or name.startswith(KEY_FIELD_PREFIX)


def key_field(field: DataField) -> DataField:
    """Return the `_KEY_` column that stands for the primary-key column `field`."""
    return DataField(
        id=KEY_FIELD_ID_START + field.id, name=KEY_FIELD_PREFIX + field.name, type=field.type
    )
