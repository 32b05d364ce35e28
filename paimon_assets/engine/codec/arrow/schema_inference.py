"""Columns of a table, taken from an Arrow schema."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    VectorType,
)

_TIME_DIGITS = 3
"""The time digits of a second: no format keeps more of a TIME."""


def infer_columns(schema: pa.Schema) -> dict[str, DataType]:
    """Return columns that hold rows of `schema` without loss, and can be written: name → type.

    Fixed-size lists become arrays, and times of a day TIME(3): rows with finer ones are refused
    when they are written.

    Raises:
        InvalidInputError: A column occurs twice, or is of an Arrow type no Paimon type can hold;
            names type and column.
    """
    twice = _repeat(schema.names)
    if twice:
        raise InvalidInputError(
            f"Column '{twice}' occurs twice; drop or rename one of them.",
            kind="input-columns",
            details={"column": twice},
        )
    return {field.name: _type_of(field) for field in schema}


def _type_of(field: "pa.Field[pa.DataType]") -> DataType:
    try:
        return inferred_type(field.type, nullable=field.nullable)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"Column '{field.name}' cannot be stored: {error.message}",
            kind=error.kind,
            details={**error.details, "column": field.name},
        ) from error


def inferred_type(arrow_type: pa.DataType, *, nullable: bool = True) -> DataType:
    """Return the type of a column that is made for values of an Arrow type.

    Raises:
        InvalidInputError: There is none, or a struct names a field twice.
    """
    return _writable(from_arrow_type(arrow_type, nullable=nullable))


def _writable(data_type: DataType) -> DataType:
    match data_type:
        case AtomicType(root=TypeRoot.TIME):
            digits = min(data_type.precision or 0, _TIME_DIGITS)
            return replace(data_type, precision=digits)
        case ArrayType(element=element):
            return replace(data_type, element=_writable(element))
        case VectorType(element=element):
            return ArrayType(nullable=data_type.nullable, element=_writable(element))
        case MapType(key=key, value=value):
            return replace(data_type, key=_writable(key), value=_writable(value))
        case RowType(fields=fields):
            twice = _repeat([field.name for field in fields])
            if twice:
                raise InvalidInputError(
                    f"it is a struct that names '{twice}' twice; rename one of them.",
                    kind="arrow-type",
                )
            typed = tuple(replace(field, type=_writable(field.type)) for field in fields)
            return replace(data_type, fields=typed)
        case _:
            return data_type


def _repeat(names: list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
