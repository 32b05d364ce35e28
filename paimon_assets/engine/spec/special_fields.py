"""System columns: their names, ids and types.

Source: `org.apache.paimon.table.SpecialFields`.
"""

from paimon_assets.engine.spec.types import AtomicType, DataField, TypeRoot, bigint, not_null

KEY_FIELD_PREFIX = "_KEY_"
KEY_FIELD_ID_START = 1_073_741_823
"""Id of `_KEY_<column>` is this plus the column's id."""

SEQUENCE_NUMBER = DataField(id=2_147_483_646, name="_SEQUENCE_NUMBER", type=not_null(bigint()))
VALUE_KIND = DataField(
    id=2_147_483_645,
    name="_VALUE_KIND",
    type=AtomicType(root=TypeRoot.TINYINT, nullable=False),
)
LEVEL_NAME = "_LEVEL"
ROW_KIND_NAME = "rowkind"
ROW_ID = DataField(id=2_147_483_642, name="_ROW_ID", type=bigint())

SYSTEM_FIELD_NAMES = frozenset(
    {SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL_NAME, ROW_KIND_NAME, ROW_ID.name}
)


def is_system_name(name: str) -> bool:
    """Whether a column of this name would collide with a system column."""
    return name in SYSTEM_FIELD_NAMES or name.startswith(KEY_FIELD_PREFIX)


def key_field(field: DataField) -> DataField:
    """Return the `_KEY_` column that stands for the primary-key column `field`."""
    return DataField(
        id=KEY_FIELD_ID_START + field.id,
        name=KEY_FIELD_PREFIX + field.name,
        type=not_null(field.type),
    )
