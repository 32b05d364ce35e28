"""Columns computed from one of the same record, named as by Paimon's Flink actions.

year(made)    date_format(made, yyyy-MM)    substring(note, 0, 10)    truncate(price, 100)
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_assets.cdc.records.json_columns import Array, kernels
from paimon_assets.engine.codec.arrow.arrow_types import timestamp_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.values import Value

Compute: TypeAlias = Callable[[Array], Array]

_CALL = re.compile(r"\s*(?P<name>\w+)\s*\(\s*(?P<column>[^,()]+?)\s*(?:,(?P<rest>[^()]*))?\)\s*")
_WORD = re.compile(r"([A-Za-z])\1*|[^A-Za-z]+")
_UNITS = {"second": "s", "millis": "ms", "micros": "us", "nanos": "ns"}
"""Of whole numbers that are times."""
_PATTERNS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class Computation(Value):
    """One computed column."""

    source: str
    """The column that it is computed from."""
    compute: Compute


def computation_of(text: str) -> Computation:
    """Parse a call.

    Raises:
        InvalidInputError: Kind `cdc-option`: there is no such function, or it has other arguments.
    """
    match = _CALL.fullmatch(text)
    name = "" if match is None else match["name"].lower()
    if match is None or name not in _FUNCTIONS:
        raise InvalidInputError(
            f"'{text}' computes no column; expected a column and its arguments in one of "
            f"{', '.join(_FUNCTIONS)}.",
            kind="cdc-option",
        )
    words = [word.strip() for word in (match["rest"] or "").split(",") if word.strip()]
    try:
        return Computation(source=match["column"], compute=_FUNCTIONS[name](*words))
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(
            f"'{text}' computes no column: its arguments are wrong ({error}).", kind="cdc-option"
        ) from error


def _times(column: Array, unit: str) -> Array:
    """Return times of seconds; whole numbers count a unit."""
    if pa.types.is_integer(column.type):
        held = timestamp_type(unit, None)
        column = column.cast(pa.int64()).cast(held)
    elif not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    zone = column.type.tz
    return kernels.floor_temporal(column, unit="second").cast(pa.timestamp("s", zone))


def _part(name: str) -> Callable[..., Compute]:
    def of_unit(unit: str = "second") -> Compute:
        held = _UNITS[unit]
        return lambda column: getattr(kernels, name)(_times(column, held)).cast(pa.int32())

    return of_unit


def _format_time(pattern: str, unit: str = "second") -> Compute:
    words = [match.group() for match in _WORD.finditer(pattern)]
    form = "".join(_PATTERNS[word] if word[0].isalpha() else word for word in words)
    held = _UNITS[unit]
    return lambda column: kernels.strftime(_times(column, held), format=form)


def _substring(begin: str, end: str = "") -> Compute:
    first, last = int(begin), int(end) if end else None
    return lambda column: kernels.utf8_slice_codeunits(column.cast(pa.string()), first, last)


def _truncate(width: str) -> Compute:
    size = int(width)

    def compute(column: Array) -> Array:
        if pa.types.is_string(column.type):
            return kernels.utf8_slice_codeunits(column, 0, size)
        step: Any = pa.scalar(size, column.type)
        rest = kernels.subtract(column, kernels.multiply(kernels.divide(column, step), step))
        is_below = kernels.less(rest, pa.scalar(0, column.type))
        return kernels.subtract(column, kernels.if_else(is_below, kernels.add(rest, step), rest))

    return compute


_FUNCTIONS: dict[str, Callable[..., Compute]] = {
    **{part: _part(part) for part in ("year", "month", "day", "hour", "minute", "second")},
    "date_format": _format_time,
    "substring": _substring,
    "truncate": _truncate,
}
