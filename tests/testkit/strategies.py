"""Hypothesis strategies: column types, values of a type, rows of a schema."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import AtomicType, DataType, TypeRoot
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.model import Row

_INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_FIRST_DAY, _LAST_DAY = dt.date(1700, 1, 1), dt.date(2200, 1, 1)
_NANOS_OF_DAY = 86_400 * 10**9
_EPOCH = dt.date(1970, 1, 1)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
"""Any Unicode text that a file can hold."""

TYPE_TEXTS = st.sampled_from(
    [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
        "DECIMAL(4, 1)", "DECIMAL(18, 3)", "DECIMAL(38, 10)", "STRING", "VARCHAR(20)", "BYTES",
        "DATE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    ]
)  # fmt: skip
"""Texts of every atomic type that Parquet tables hold."""


def values_of(data_type: DataType) -> st.SearchStrategy[Any]:
    """Return values of an atomic type, as Python has them; timestamps are nanoseconds.

    Floats are finite: NaN equals nothing, and tests compare.
    """
    if not isinstance(data_type, AtomicType):
        raise TypeError(f"no strategy for {data_type}")
    root = data_type.root
    if root in _INTEGER_BITS:
        limit = 2 ** (_INTEGER_BITS[root] - 1)
        return st.integers(-limit, limit - 1)
    match root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT:
            return st.floats(allow_nan=False, allow_infinity=False, width=32)
        case TypeRoot.DOUBLE:
            return st.floats(allow_nan=False, allow_infinity=False)
        case TypeRoot.DECIMAL:
            return _decimals(data_type)
        case TypeRoot.VARCHAR:
            return TEXTS
        case TypeRoot.VARBINARY:
            return st.binary(max_size=12)
        case TypeRoot.DATE:
            return st.dates(_FIRST_DAY, _LAST_DAY)
        case TypeRoot.TIME:
            return st.integers(0, 86_400_000 - 1).map(_time_of_millis)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _nanos(data_type.precision or 0)
        case _:
            raise TypeError(f"no strategy for {data_type}")


def _decimals(data_type: AtomicType) -> st.SearchStrategy[Any]:
    scale = data_type.scale or 0
    limit = 10 ** (data_type.precision or 1) - 1
    return st.integers(-limit, limit).map(lambda unscaled: _scale(unscaled, scale))


def _scale(unscaled: int, scale: int) -> Any:
    # Decimal(tuple) keeps all digits; arithmetic would round to the context's precision.
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def _time_of_millis(millis: int) -> dt.time:
    seconds, rest = divmod(millis, 1000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)


def _nanos(precision: int) -> st.SearchStrategy[int]:
    unit = 10 ** (9 - precision)
    first = (_FIRST_DAY - _EPOCH).days * _NANOS_OF_DAY
    last = (_LAST_DAY - _EPOCH).days * _NANOS_OF_DAY
    return st.integers(first // unit, last // unit).map(lambda units: units * unit)


def rows_of(
    schema: Schema, given: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[Row]:
    """Return rows of a schema of atomic columns; NOT NULL and key columns hold no nulls."""
    columns: dict[str, st.SearchStrategy[Any]] = {}
    for column in schema.fields:
        values = values_of(column.type)
        if column.type.nullable and column.name not in schema.primary_keys:
            values = st.none() | values
        columns[column.name] = values
    return st.fixed_dictionaries({**columns, **(given or {})})


@st.composite
def schemas(draw: st.DrawFn, *, primary_key: bool | None = None) -> Schema:
    """Draw a schema of one to six atomic columns beside its key `id`."""
    texts = draw(st.lists(TYPE_TEXTS, min_size=1, max_size=6))
    keyed = draw(st.booleans()) if primary_key is None else primary_key
    columns: dict[str, str | DataType] = {"id": "INT NOT NULL"}
    columns.update({f"c{number}": parse_type(text) for number, text in enumerate(texts)})
    return Schema.of(
        columns,
        primary_keys=["id"] if keyed else [],
        options={"bucket": str(draw(st.integers(1, 3))) if keyed else "-1"},
    )
