"""Columns of Python objects → Arrow arrays that hold each value exactly, or the first misfit.

pyarrow's own conversion cuts, shifts and splits in silence: 1.9 to 1, nanoseconds to microseconds,
times of two zones to one, `"abc"` to a, b, c. So the kinds of objects are checked first: the wanted
Arrow type decides which objects a column may hold, at every level of nesting. Nested values are
split by level, so that one column of leaves is converted at once.

A missing value is a null: None, NaN, and the NaT and NA of pandas.
"""

import datetime as dt
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import accumulate, chain, compress
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_values import first_failing

_IGNORE = "PYARROW_IGNORE_TIMEZONE"
_LOCK = RLock()


@contextmanager
def zones_kept() -> Iterator[None]:
    """Keep the zones of datetimes that are converted inside: unsets a variable of this process."""
    with _LOCK:
        value = os.environ.pop(_IGNORE, None)
        try:
            yield
        finally:
            if value is not None:
                os.environ[_IGNORE] = value


CONVERSION_ERRORS = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    TypeError,
    ValueError,
    NotImplementedError,
)
"""Errors of pyarrow, numpy and pandas for values that an Arrow type cannot hold."""

Objects = Sequence[Any]


class Mismatch(Exception):  # noqa: N818 - never leaves the conversion of a frame
    """One value that a column cannot hold exactly."""

    def __init__(self, position: int, value: object, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.value = value
        self.reason = reason


def from_objects(values: Objects, target: Any) -> Any:
    """Return Python objects as an Arrow array that holds each of them exactly."""
    if pat.is_struct(target):
        return _structs(values, target)
    if pat.is_map(target):
        return _maps(values, target)
    if pat.is_list(target) or pat.is_fixed_size_list(target):
        return _lists(values, target)
    rule = next((rule for is_of, rule in _RULES if is_of(target)), _convert)
    return rule(values, target)


def fit_column(values: Any, target: Any) -> Any:
    """Return an Arrow array in the target type, where a frame cannot show the difference.

    Frames without nulls for integers hold them as floats, days as their midnights, and FLOAT as
    DOUBLE. Other values that are not of the target type stay: the write casts or refuses them.
    """
    source = values.type
    if source == target:
        return values
    if values.null_count == len(values):
        return pa.nulls(len(values))
    if pat.is_timestamp(source) and source.tz is None and pat.is_date(target):
        return _exactly(values, target, "is no day: it has a time; take .dt.normalize() first")
    if pat.is_float64(source) and pat.is_float32(target):
        return _exactly(values, target, "would be rounded; take .astype('float32') first")
    to_float = pat.is_integer(source) and pat.is_floating(target)
    if not (to_float or (pat.is_floating(source) and pat.is_integer(target))):
        return values
    if pat.is_float16(source):
        values = values.cast(pa.float32())
    try:
        return values.cast(target)
    except pa.ArrowInvalid as error:
        bad = first_failing(values, lambda part: part.cast(target))
        raise Mismatch(bad, values[bad].as_py(), f"does not fit {target}") from error


def _exactly(values: Any, target: Any, reason: str) -> Any:
    """Cast, and refuse values that the cast changes."""
    cast = values.cast(target, safe=False)
    changed = pc.not_equal(cast.cast(values.type), values)
    if pat.is_floating(values.type):  # a NaN equals nothing
        changed = pc.and_(changed, pc.invert(pc.is_nan(values)))
    bad = pc.index(changed, True).as_py()
    if bad >= 0:
        raise Mismatch(bad, values[bad].as_py(), reason)
    return cast


def _of(*kinds: type, reason: str, never: tuple[type, ...] = ()) -> Callable[[Objects, Any], Any]:
    """Return the rule of a column that holds objects of some kinds, as they are."""

    def rule(values: Objects, target: Any) -> Any:
        _require(values, kinds, reason, never)
        return _convert(values, target)

    return rule


def _integers(values: Objects, target: Any) -> Any:
    numbers = (int, np.integer, *_FLOATS)
    if _require(values, numbers, "is no integer", never=_BOOLEANS) & set(_FLOATS):
        for position, value in enumerate(values):
            if isinstance(value, _FLOATS) and not is_missing(value) and not value.is_integer():
                raise Mismatch(position, value, "is no integer")
    return _convert(values, target)


def _floats(values: Objects, target: Any) -> Any:
    _require(values, (int, np.integer, *_FLOATS), "is no number", never=_BOOLEANS)
    return fit_column(_convert(values, pa.float64()), target)


def _days(values: Objects, target: Any) -> Any:
    _require(values, (dt.date,), "is no date")
    with_time = [isinstance(value, dt.datetime) and not is_missing(value) for value in values]
    if not any(with_time):
        return _convert(values, target)
    other = next(
        (at for at, has_time in enumerate(with_time) if not (has_time or is_missing(values[at]))),
        None,
    )
    if other is not None:
        raise Mismatch(other, values[other], "is a date among times; give either of them")
    return fit_column(_timestamps(values, pa.timestamp("us")), target)


def _times(values: Objects, _wanted: Any) -> Any:
    _require(values, (dt.time,), "is no time of day")
    _refuse_first(values, lambda value: value.tzinfo is not None, "has a zone, the column has none")
    return _convert(values, pa.time64("us"))


def _timestamps(values: Objects, target: Any) -> Any:
    _require(values, (dt.datetime,), "is no timestamp")
    reason = "has no zone, so it is no instant"
    if target.tz is None:
        reason = "has a zone, DATE and TIMESTAMP have none"
    _refuse_first(values, lambda value: (value.tzinfo is None) != (target.tz is None), reason)
    is_fine = any(getattr(value, "nanosecond", 0) for value in values)
    return _convert(values, pa.timestamp("ns" if is_fine else "us", target.tz))


_BOOLEANS = (bool, np.bool_)
_FLOATS = (float, np.float16, np.float32, np.float64)
_RULES: tuple[tuple[Callable[[Any], bool], Callable[[Objects, Any], Any]], ...] = (
    (pat.is_boolean, _of(*_BOOLEANS, reason="is no boolean")),
    (pat.is_integer, _integers),
    (pat.is_floating, _floats),
    (pat.is_decimal, _of(Decimal, int, reason="is no decimal number", never=(bool,))),
    (pat.is_string, _of(str, reason="is no text")),
    (
        lambda target: pat.is_binary(target) or pat.is_large_binary(target),
        _of(bytes, bytearray, reason="is no bytes"),
    ),
    (pat.is_date, _days),
    (pat.is_time, _times),
    (pat.is_timestamp, _timestamps),
)


def is_missing(value: Any) -> bool:
    """Whether a value of a pandas frame is a null: None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in {"NaTType", "NAType"}:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _require(
    values: Objects, kinds: tuple[type, ...], reason: str, never: tuple[type, ...] = ()
) -> set[type]:
    """Refuse the first value that is of none of some kinds, and not missing; return the kinds.

    Of each kind of object one look decides, for all its values, unless some may be NaN.
    """
    types = set(map(type, values))
    wrong = {
        kind
        for kind in types - {type(None)}
        if not issubclass(kind, kinds) or (never and issubclass(kind, never))
    }
    if wrong:
        for position, value in enumerate(values):
            if type(value) in wrong and not is_missing(value):
                raise Mismatch(position, value, reason)
    return types


def _refuse_first(values: Objects, is_wrong: Callable[[Any], bool], reason: str) -> None:
    for position, value in enumerate(values):
        if not is_missing(value) and is_wrong(value):
            raise Mismatch(position, value, reason)


def _convert(values: Objects, target: Any) -> Any:
    def convert(some: Objects) -> Any:
        return pa.array(some, type=target, from_pandas=True)

    try:
        return convert(values)
    except CONVERSION_ERRORS as error:
        bad = first_failing(values, convert, CONVERSION_ERRORS)
        raise Mismatch(bad, values[bad], f"does not fit {target}") from error


def _present(values: Objects, kinds: tuple[type, ...], reason: str) -> list[bool]:
    _require(values, kinds, reason)
    return [isinstance(value, kinds) for value in values]


def _structs(values: Objects, target: Any) -> Any:
    present = _present(values, (Mapping,), "is no dict, as a ROW must be")
    names = [field.name for field in target]
    known = frozenset(names)
    for position, (value, is_there) in enumerate(zip(values, present, strict=True)):
        if is_there and not known.issuperset(value):
            extra = next(key for key in value if key not in known)
            raise Mismatch(
                position, extra, f"is a key the ROW does not have, only {', '.join(names)}"
            )
    children = [
        from_objects(
            [
                value.get(field.name) if is_there else None
                for value, is_there in zip(values, present, strict=True)
            ],
            field.type,
        )
        for field in target
    ]
    return pa.StructArray.from_arrays(children, names, mask=_absent(present))


def _maps(values: Objects, target: Any) -> Any:
    kinds = (Mapping, list, tuple, np.ndarray)
    present = _present(values, kinds, "is no dict or list of pairs")
    entries = [
        list(value.items() if isinstance(value, Mapping) else value) if is_there else []
        for value, is_there in zip(values, present, strict=True)
    ]
    offsets = [0, *accumulate(map(len, entries))]
    pairs = list(chain.from_iterable(entries))
    with _inside(offsets):
        for position, pair in enumerate(pairs):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise Mismatch(position, pair, "is no pair of key and value")
        keys = from_objects([pair[0] for pair in pairs], target.key_type)
        if keys.null_count:
            at = pc.index(keys.is_null(), True).as_py()
            raise Mismatch(at, None, "is a null key")
        items = from_objects([pair[1] for pair in pairs], target.item_type)
    return pa.MapArray.from_arrays(_offsets(offsets, present), keys, items)


def _lists(values: Objects, target: Any) -> Any:
    present = _present(values, (list, tuple, np.ndarray), "is no list")
    if not pat.is_fixed_size_list(target):
        offsets, inner = _elements(values, present, target.value_type)
        return pa.ListArray.from_arrays(_offsets(offsets, present), inner)
    size = target.list_size
    for position, value in enumerate(values):
        if present[position] and len(value) != size:
            raise Mismatch(position, value, f"has {len(value)} elements, not {size}")
    filled = [
        value if is_there else [None] * size
        for value, is_there in zip(values, present, strict=True)
    ]
    _, inner = _elements(filled, [True] * len(filled), target.value_type)
    return pa.FixedSizeListArray.from_arrays(inner, size, mask=_absent(present))


def _elements(values: Objects, present: list[bool], target: Any) -> tuple[list[int], Any]:
    """Return where the elements of each list begin, and all of them."""
    lists: list[Any] = [
        value if is_there else () for value, is_there in zip(values, present, strict=True)
    ]
    offsets = [0, *accumulate(map(len, lists))]
    lists = list(compress(lists, present))
    dtypes: set[Any] = {getattr(value, "dtype", None) for value in lists}
    with _inside(offsets):
        if len(dtypes) == 1 and None not in dtypes and all(value.ndim == 1 for value in lists):
            [dtype] = dtypes
            if dtype.kind in "biufM" and dtype.char != "g":
                return offsets, fit_column(
                    pa.array(np.concatenate(lists), from_pandas=True), target
                )
        return offsets, from_objects(list(chain.from_iterable(lists)), target)


@contextmanager
def _inside(offsets: list[int]) -> Iterator[None]:
    """Convert nested values; a mismatch is reported for the outer value."""
    try:
        yield
    except Mismatch as error:
        error.position = bisect_right(offsets, error.position) - 1
        raise


def _offsets(offsets: list[int], present: Iterable[bool]) -> Any:
    """Return offsets as Arrow takes them: null where the value is."""
    starts = [at if there else None for at, there in zip(offsets, present, strict=False)]
    return pa.array([*starts, offsets[-1]], pa.int32())


def _absent(present: list[bool]) -> Any:
    return pa.array([not there for there in present], pa.bool_())
