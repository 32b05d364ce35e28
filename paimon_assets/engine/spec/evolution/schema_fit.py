"""Do rows that were written by one schema of a table mean the same by a later one?"""

from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.data_types import DataField


def first_unkept(older: TableSchema, newer: TableSchema) -> DataField | None:
    """Return the first column of the older schema that the newer one need not show unchanged.

    It was dropped, takes no nulls any more, or has a type that lacks some of its values. Columns
    are matched by id.
    """
    for field in older.fields:
        now = newer.by_id.get(field.id)
        if now is None or (field.type.nullable and not now.type.nullable):
            return field
        if not keeps_all(field.type, now.type):
            return field
    return None
