"""Columns of a table, taken from an Arrow schema."""

import pyarrow as pa

from paimon_assets.engine.codec.arrow_types import from_arrow_type
from paimon_assets.engine.spec.types import DataField


def infer_schema(schema: pa.Schema) -> tuple[DataField, ...]:
    """Return the columns that hold rows of `schema` without loss.

    Raises:
        UnsupportedFeatureError: An Arrow type no Paimon type can hold; names it.
    """
    return tuple(
        DataField(
            id=number, name=field.name, type=from_arrow_type(field.type, nullable=field.nullable)
        )
        for number, field in enumerate(schema)
    )
