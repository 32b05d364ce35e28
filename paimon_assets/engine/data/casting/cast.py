"""Cast: the parameters of a kernel besides its values; and columns ⇄ numpy for kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import first_failing
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.data_types import AtomicType
from paimon_assets.engine.spec.values import Value

Array: TypeAlias = Any
"""A `pa.Array` of some type; the stubs lack the results of kernels."""

Numbers = npt.NDArray[Any]

UTC = "UTC"
CAST = "cast"
"""`kind` of the errors about a value that cannot be cast."""

_MAX_EXAMPLE = 60
_FIRST_ROWS = 64


class Cast(Value):
    """One cast of one column."""

    source: AtomicType
    target: AtomicType
    dialect: CastDialect
    zone: str = UTC

    @property
    def is_java(self) -> bool:
        return self.dialect is CastDialect.JAVA

    @property
    def arrow_type(self) -> pa.DataType:
        return to_arrow_type(self.target)

    def error(self, value: object, reason: str = "") -> InvalidInputError:
        text = str(value)
        if len(text) > _MAX_EXAMPLE:
            text = f"{text[:_MAX_EXAMPLE]}…"
        return InvalidInputError(
            f"'{text}' of type {self.source} is not a valid {self.target}"
            f"{f': {reason}' if reason else ''} (cast dialect {self.dialect}).",
            kind=CAST,
            source_type=str(self.source),
            target_type=str(self.target),
            value=text,
            dialect=self.dialect.value,
        )

    def check(self, is_bad: Array | arrays.Flags, array: Array, reason: str = "") -> None:
        """Raise if some value is bad."""
        rows = is_bad if isinstance(is_bad, np.ndarray) else truth_of(is_bad)
        if rows.any():
            raise self.error(_show(array, int(np.argmax(rows))), reason)

    def by_arrow(self, array: Array, arrow_type: Any = None) -> Array:
        """Cast as Arrow does, to the target's type by default."""
        target = self.arrow_type if arrow_type is None else arrow_type
        return self.apply(array, lambda part: part.cast(target))

    def apply(self, array: Array, kernel: Callable[[Array], Array], reason: str = "") -> Array:
        """Call an Arrow kernel; its error names the first value that it refuses."""
        try:
            return kernel(array)
        except pa.ArrowInvalid as error:
            raise self.error(_show(array, first_failing(array, kernel)), reason) from error


Kernel: TypeAlias = Callable[[Array, Cast], Array]
"""Values of `cast.source` → values of `cast.target`, as many, with nulls where there were nulls."""


def attempt(array: Array, arrow_type: Any) -> Array | None:
    """Cast as Arrow does, or return None where Arrow refuses some value.

    Arrow writes an error for every value it refuses, which takes longer than casting: the first
    rows are tried alone.
    """
    if len(array) > _FIRST_ROWS and attempt(array.slice(0, _FIRST_ROWS), arrow_type) is None:
        return None
    try:
        return array.cast(arrow_type)
    except pa.ArrowInvalid:
        return None


def _show(array: Array, row: int) -> str:
    value = array[row]
    if pa.types.is_string(array.type):
        return bytes(value.as_buffer()).decode(errors="backslashreplace")
    return str(value.cast(pa.string()).as_py())


def values_of(array: Array) -> Numbers:
    """Return the values of a column of fixed width, sharing its memory; nulls hold anything.

    Dates are days, times milliseconds, timestamps counts of their unit.
    """
    kind = "f" if pa.types.is_floating(array.type) else "i"
    return arrays.numbers_of(array, f"{kind}{array.type.bit_width // 8}")


def furthest(values: arrays.Longs) -> int:
    """Return the largest distance from zero."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def with_nulls_as(values: Numbers, array: Array, filler: Any) -> Numbers:
    return values if not array.null_count else np.where(arrays.valid_rows(array), values, filler)


def column_of(
    values: Numbers, arrow_type: Any, nulls_of: Array, more_nulls: arrays.Flags | None = None
) -> Array:
    """Return numbers as a column, sharing their memory."""
    buffers = [validity_of(nulls_of, more_nulls), arrays.buffer_of(values)]
    return pa.Array.from_buffers(arrow_type, len(values), buffers)


def validity_of(nulls_of: Array, more_nulls: arrays.Flags | None = None) -> Any:
    """Return a bitmap of the rows that are not null, or None if all are."""
    if not nulls_of.null_count and (more_nulls is None or not more_nulls.any()):
        return None
    valid = arrays.valid_rows(nulls_of)
    if more_nulls is not None:
        valid = valid & ~more_nulls
    return arrays.buffer_of(valid)


def truth_of(column: Array) -> arrays.Flags:
    """Return which rows of a column of booleans are true; null is not."""
    return arrays.to_numpy(column.fill_null(False))  # noqa: FBT003 - Arrow's order


def replace(texts: Array, rows: arrays.Flags, by: Array) -> Array:
    """Return a column with the values of some rows replaced, in order."""
    return pc.replace_with_mask(texts, arrays.from_numpy(rows), by)


def lengths_of(texts: Array) -> Numbers:
    """Return the bytes of each text or binary, 0 for null."""
    return with_nulls_as(values_of(pc.binary_length(texts)), texts, 0)


def bytes_of(texts: Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of a column of texts, one text after the other."""
    buffers = texts.buffers()
    if buffers[2] is None or not len(texts):
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(buffers[1], np.int32, len(texts) + 1, texts.offset * 4)
    start, end = int(bounds[0]), int(bounds[-1])
    return np.frombuffer(buffers[2], np.uint8, end - start, start)


def has_letters(texts: Array, *, but: str = "") -> bool:
    """Whether a text may hold ASCII letters other than some small ones."""
    letters = bytes_of(texts) | 0x20
    mask = (letters >= ord("a")) & (letters <= ord("z"))
    for allowed in but:
        mask &= letters != ord(allowed)
    return bool(mask.any())


def without_ends(texts: Array, counts: Numbers) -> Array:
    """Cut bytes off the ends of texts.

    Cost:
        Copies the rest; a pass for every number of bytes up to the largest count.
    """
    if not counts.any():
        return texts
    data = bytes_of(texts)
    ends = _bounds(lengths_of(texts))[1:]
    stays = np.ones(len(data), dtype=bool)
    for cut in range(1, int(counts.max(initial=0)) + 1):
        stays[ends[counts >= cut] - cut] = False
    return _texts(_bounds(lengths_of(texts) - counts), data[stays])


def with_nulls_of(column: Array, nulls_of: Array) -> Array:
    """Return a column of texts that is null where `nulls_of` is, sharing its memory."""
    if not nulls_of.null_count:
        return column
    if column.offset:
        return pc.if_else(nulls_of.is_valid(), column, pa.scalar(None, column.type))
    buffers = [validity_of(nulls_of), *column.buffers()[1:]]
    return pa.Array.from_buffers(column.type, len(column), buffers)


def with_inserted(texts: Array, rows: arrays.Flags, at: Numbers | int, inserted: str) -> Array:
    if not rows.any():
        return texts
    bounds = _bounds(lengths_of(texts) + rows * np.int32(len(inserted)))
    starts = bounds[:-1] if rows.all() else bounds[:-1][rows]
    data = np.empty(int(bounds[-1]), dtype=np.uint8)
    # Bytes that are not inserted are the old ones, in their order.
    old = np.ones(len(data), dtype=bool)
    for offset, character in enumerate(inserted.encode()):
        positions = starts + (at + offset)
        old[positions] = False
        data[positions] = character
    data[old] = bytes_of(texts)
    return _texts(bounds, data)


def _bounds(lengths: Numbers) -> npt.NDArray[np.int32]:
    bounds = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, dtype=np.int32, out=bounds[1:])
    return bounds


def _texts(bounds: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Array:
    """Return the texts between bounds in the data, as a column without nulls."""
    buffers = [None, arrays.buffer_of(bounds), arrays.buffer_of(data)]
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, buffers)
