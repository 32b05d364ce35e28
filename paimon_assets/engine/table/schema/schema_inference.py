"""Columns of a table, taken from an Arrow schema."""

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import DataField, DataType


def infer_schema(schema: pa.Schema) -> tuple[DataField, ...]:
    """Return the columns that hold rows of `schema` without loss.

    Raises:
        InvalidInputError: An Arrow type no Paimon type can hold; names it and the column.
    """
    return tuple(
        DataField(id=number, name=field.name, type=_type_of(field))
        for number, field in enumerate(schema)
    )


def _type_of(field: "pa.Field[pa.DataType]") -> DataType:
    try:
        return from_arrow_type(field.type, nullable=field.nullable)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"Column '{field.name}' cannot be stored: {error.message}",
            kind=error.kind,
            details={**error.details, "column": field.name},
        ) from error
