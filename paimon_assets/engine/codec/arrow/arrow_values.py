"""Single values and short columns: internal value ⇄ Arrow.

Internal values are those of `spec.types.literals`: DATE days, TIME milliseconds of the day,
timestamps nanoseconds since the epoch, DECIMAL `Decimal`.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import timestamp_type, to_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import Words, from_numpy, to_numpy
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.literals import Internal

UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def shown_value(scalar: Any) -> Any:
    """Return a scalar as Python's value, and as text where Python has none.

    >>> shown_value(pa.scalar(2**58, pa.timestamp("us")))
    '11103-08-29 17:22:31.711744'
    """
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):  # a year beyond 9999, nanoseconds, a text that is no UTF-8
        return pa.repeat(scalar, 1).to_string(skip_new_lines=True)[1:-1]


def shown_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Return a few rows for people, by `shown_value`."""
    columns: list[Any] = list(zip(rows.column_names, rows.columns, strict=True))
    return [
        {name: shown_value(column[number]) for name, column in columns}
        for number in range(rows.num_rows)
    ]


def to_scalar(value: Internal, data_type: types.DataType) -> "pa.Scalar[Any]":
    """Return an internal value as an Arrow scalar, exactly.

    The scalar has the column's Arrow type wherever that holds the value. A literal that it does not
    hold (1.5 seconds for TIMESTAMP(0), 2³¹ for INT, 1.234 for DECIMAL(10, 2)) gets the next
    wider type of the same family, so that comparing it with the column is still right.
    """
    arrow_type: Any = to_arrow_type(data_type)
    if value is None:
        return _scalar(None, arrow_type)
    try:
        if data_type.root in types.TIMESTAMP_ROOTS:
            nanos, coarsest = int(value), UNIT_NANOS[arrow_type.unit]
            units = (unit for unit in UNIT_NANOS.items() if unit[1] <= coarsest)
            unit, size = next(each for each in units if nanos % each[1] == 0)
            return _scalar(nanos // size, timestamp_type(unit, arrow_type.tz))
        try:
            return _scalar(value, arrow_type)
        except (pa.ArrowInvalid, OverflowError):
            if data_type.root is types.TypeRoot.DECIMAL:
                own: Any = _scalar(value, None).type
                # Of both scales and all digits, 38 may be too few.
                return _scalar(value, pa.decimal256(own.precision, own.scale))
            if data_type.root not in types.INTEGER_ROOTS:
                raise
            number: Any = value
            fits = -(2**63) <= number < 2**63
            return _scalar(number, pa.int64()) if fits else _scalar(Decimal(number), None)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise InvalidInputError(
            f"No Arrow value for {value!r} as {data_type}: {error}", kind="literal"
        ) from error


def _scalar(value: Any, arrow_type: Any) -> "pa.Scalar[Any]":
    scalar: pa.Scalar[Any] = pa.scalar(value, arrow_type)
    return scalar


def internals(column: Any, data_type: types.DataType) -> list[Internal]:
    """Return the internal values of a column, for few rows: one Python object a row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    root, target = data_type.root, to_arrow_type(data_type)
    same_family = _FAMILIES.get(root, target.equals)
    if not same_family(column.type):
        column = pc.cast(column, target)
    if root in types.TIMESTAMP_ROOTS:
        factor = UNIT_NANOS[column.type.unit]
        counts = column.cast(pa.int64()).to_pylist()
        return [None if count is None else count * factor for count in counts]
    if root is types.TypeRoot.TIME:
        column = column.cast(pa.time32("ms")).cast(pa.int32())
    elif root is types.TypeRoot.DATE:
        column = column.cast(pa.date32()).cast(pa.int32())
    return column.to_pylist()  # type: ignore[no-any-return]  # the plain values are internal


_FAMILIES: dict[types.TypeRoot, Callable[[Any], bool]] = {
    **dict.fromkeys(types.INTEGER_ROOTS, pat.is_integer),
    **dict.fromkeys(types.TIMESTAMP_ROOTS, pat.is_timestamp),
    **dict.fromkeys(types.CHARACTER_ROOTS, lambda kind: kind in (pa.string(), pa.large_string())),
    **dict.fromkeys(types.BINARY_ROOTS, lambda kind: kind in (pa.binary(), pa.large_binary())),
    types.TypeRoot.DECIMAL: pat.is_decimal,
    types.TypeRoot.DATE: pat.is_date,
    types.TypeRoot.TIME: pat.is_time,
}
"""Arrow types whose values serve for a Paimon type without a cast that could lose something."""

_SIGN = np.uint64(1 << 63)


def total_order(array: Any) -> Any:
    """Return an array of numbers that compare as its values do; nulls stay."""
    words = from_numpy(total_order_words(to_numpy(array)))
    return pc.if_else(array.is_valid(), words, None) if array.null_count else words


def total_order_words(values: npt.NDArray[Any]) -> Words:
    """Map floating-point values to numbers that compare as they do."""
    doubles = values.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def first_failing(
    column: Any,
    kernel: Callable[[Any], object],
    errors: tuple[type[Exception], ...] = (pa.ArrowException,),
) -> int:
    """Return the first position for which `kernel` raises. Cost: two calls on the column."""
    start, rows = 0, len(column)
    while rows > 1:
        half = rows // 2
        try:
            kernel(column[start : start + half])
        except errors:
            rows = half
        else:
            start, rows = start + half, rows - half
    return start
