"""Default values of columns: what is stored where rows hold none.

A null becomes the default, as does a whole column that the rows lack.
Source: `org.apache.paimon.casting.DefaultValueRow`, `org.apache.paimon.utils.DefaultValueUtils`.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from paimon_assets.engine.data.casting.columns import CastSettings, cast_column
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, string

_QUOTE = "'"


def column_defaults(schema: TableSchema, table: str) -> Mapping[str, "pa.Scalar[Any]"]:
    """Return the columns that have a default value, with it.

    Args:
        schema: The table's; texts of defaults are cast as the table casts columns.
        table: Its name, for messages.

    Raises:
        InvalidInputError: A text is no value of its column's type; names the column.
    """
    settings = CastSettings.of(schema.typed_options)
    return {
        field.name: _default(field, field.default_value, settings, table)
        for field in schema.fields
        if field.default_value is not None
    }


def _default(field: DataField, text: str, settings: CastSettings, table: str) -> "pa.Scalar[Any]":
    quoted = len(text) > 1 and text.startswith(_QUOTE) and text.endswith(_QUOTE)
    plain = text[1:-1] if quoted else text
    try:
        column = cast_column(pa.array([plain], pa.string()), string(), field.type, settings)
    except PaimonError as error:
        raise InvalidInputError(
            f"Table '{table}': column '{field.name}' has the default value '{text}', which is no"
            f" {field.type}: {error.message} Change or drop the default.",
            kind="default-value",
            details={"table": table, "column": field.name},
        ) from error
    return column[0]  # type: ignore[no-any-return]
