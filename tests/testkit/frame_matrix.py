"""Every dtype of pandas, polars and Arrow, and every column type: the frames of the matrix.

A source is one dtype with values; each of its columns is handed in alone. The input is kept beside
it as Python objects, so that stored values can be judged without any conversion.
"""

import datetime as dt
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
DAY = dt.datetime(2024, 1, 1)
MILLI = dt.datetime(2024, 1, 1, 10, 0, 0, 123000)
MICRO = dt.datetime(2024, 1, 1, 10, 0, 0, 123456)
ZONED = dt.datetime(2024, 1, 1, 23, tzinfo=NEW_YORK)
NANO = pd.Timestamp("2024-01-01 10:00:00.123456789")
NAN = float("nan")

COLUMN_TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
    "DECIMAL(5, 2)", "DECIMAL(20, 0)", "DECIMAL(38, 10)",
    "CHAR(3)", "VARCHAR(3)", "STRING", "BINARY(3)", "VARBINARY(3)", "BYTES", "BLOB",
    "DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "ARRAY<INT>", "ARRAY<DOUBLE>", "ARRAY<VARCHAR(2)>", "ARRAY<STRING>", "ARRAY<INT NOT NULL>",
    "ARRAY<TIMESTAMP(3)>", "ARRAY<DATE>", "ARRAY<ARRAY<INT>>", "VECTOR<FLOAT, 2>",
    "MAP<STRING NOT NULL, INT>", "MAP<STRING NOT NULL, VARBINARY(2)>", "MAP<INT NOT NULL, STRING>",
    "MULTISET<STRING NOT NULL>",
    "ROW<a INT, b STRING>", "ROW<a VARCHAR(2), b STRING>", "ROW<a TIMESTAMP(3)>", "VARIANT",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A column of one frame library, and its input as Python objects."""

    library: str
    dtype: str
    given: list[Any]
    frame: Any
    nan_is_null: bool = True
    """Whether NaN means a missing value, as in pandas' own dtypes."""


def sources() -> Iterator[Source]:
    yield from _pandas()
    yield from _polars()
    yield from _arrow()


_INTEGERS = {
    "int8": [1, -128], "int16": [1, 2**15 - 1], "int32": [1, -(2**31)],
    "int64": [1, 300, 2**53 + 1, -(2**63)], "uint8": [1, 255], "uint16": [1, 2**16 - 1],
    "uint32": [1, 2**32 - 1], "uint64": [1, 2**63 - 1, 2**64 - 1],
}  # fmt: skip
_FLOATS = {
    "float16": [1.0, 1.5, NAN],
    "float32": [1.0, 1.5, 2.0**40, float(np.float32(0.1)), NAN, float("inf")],
    "float64": [1.0, 1.9, 0.1, 300.0, 2.0**63, 1e300, NAN, float("-inf")],
}
_TEXTS = ["a", "abc", "abcd", "äöüß", "2024-01-01", "1", ""]
_TIMES = [DAY, MILLI, MICRO]

_OBJECTS: list[list[Any]] = [
    *([value] for value in (
        True, 1, 3.0, 1.9, 2**40, 2**53 + 1, 2**63, 2**70, NAN, float("inf"), np.int8(3),
        np.uint64(2**63), np.float16(1.5), np.float32(0.1), np.float64(0.5), np.bool_(True),
        np.longdouble(0.1), 1 + 2j,
        Decimal("7.9"), Decimal(7), Decimal("1.239"), Decimal("Infinity"), Decimal("NaN"),
        Decimal("sNaN"), Decimal("1e40"), Decimal("-0.01"),
        "a", "abc", "abcd", "äöüß", "1", "\ud800", b"abc", b"abcd", bytearray(b"abc"), np.str_("x"),
        dt.date(2024, 1, 1), DAY, MILLI, MICRO, ZONED, NANO, NANO.tz_localize("UTC"), pd.NaT, pd.NA,
        pd.Timestamp("1500-01-01").as_unit("s"), pd.Timestamp.max, dt.datetime(9999, 12, 31, 23),
        dt.time(1, 2, 3), dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4), dt.time(1, tzinfo=dt.UTC),
        dt.timedelta(seconds=1), pd.Timedelta(1, "s"), np.datetime64("2024-01-01", "ns"),
        np.timedelta64(1, "s"), pd.Period("2024-01"), pd.Interval(0, 1), object(),
        [], [1], [1, None], [1.5], [1.0], [1.0, 2.0], [True], ["a"], ["abc"], [DAY], [MICRO],
        [NANO], [ZONED], [dt.date(2024, 1, 1)], [[1], None], [[1.5]], (1, 2), {1}, range(2), [NAN],
        np.array([1, 2]), np.array([1.0, 2.5]), np.array([1.0, NAN]), np.array(["a"], object),
        np.array([[1, 2]]), np.array(["2024-01-01"], "M8[ns]"), np.array(["2024"], "M8[Y]"),
        np.array([0.1, 0.2], np.float32), np.array([True]), np.array([np.longdouble(0.1)]),
        {}, {"a": 1}, {"A": 1}, {"a": 1, "b": "x"}, {"b": "x", "a": 1}, {"a": 1, "b": "x", "c": 2},
        {"a": 1.5, "b": "x"}, {"a": "abc", "b": "x"}, {"a": MICRO}, {"a": NANO}, {"a": b"ab"},
        {"a": b"abc"}, {1: "x"}, {None: 1}, {"value": b"v", "metadata": b"m"}, [("a", 1)],
        [("a", 1), ("a", 2)], [("a", None)], [("a",)], [(None, 1)], [([], 1)],
    )),
    [3, 1.9], [3, 2.0, NAN], [True, 2], [1, True], ["a", b"b"], [1, "a"], [DAY, ZONED],
    [ZONED, MICRO], [dt.date(2024, 1, 1), DAY], [dt.date(2024, 1, 1), MICRO], [DAY, None, pd.NaT],
    [Decimal("1.5"), 2], [Decimal("1.5"), 2.5], [Decimal("1.5"), NAN], [2**60 + 1, 1.5],
    [None, None], [NAN, NAN], [pd.NaT, pd.NaT], [pd.NA, None, NAN], [None, "abc", pd.NA],
    [[1], 1], [[1], [1.9]], [["a"], "abc"], [None, [1], [None]], [{"a": 1}, {"b": "x"}, None],
    [{"a": 1}, {"a": "x"}], [{"a": 1}, {"A": 1}], [None, [("a", 1)], {"b": 2}, []],
    [np.array([1]), np.array([1.9])], [np.array([1, 2]), None], [[DAY], [ZONED]], [[1], [True]],
    [0, ZONED], [ZONED, ZONED.astimezone(dt.UTC)], [[1, 2], [1]],
]  # fmt: skip


def _series(dtype: Any, values: list[Any], given: list[Any] | None = None) -> Source:
    series = pd.Series(values, dtype=dtype)
    return Source("pandas", str(dtype), given or values, pd.DataFrame({"c": series}))


def _pandas() -> Iterator[Source]:
    for values in _OBJECTS:
        series = pd.Series([None] * len(values), dtype=object)
        for at, value in enumerate(values):
            series.iat[at] = value
        yield Source("pandas", "object", values, pd.DataFrame({"c": series}))
    for dtype, integers in _INTEGERS.items():
        for value in integers:
            yield _series(dtype, [value])
            yield _series(dtype.replace("i", "I").replace("u", "U"), [value, None])
    for dtype, floats in _FLOATS.items():
        for number in floats:
            yield _series(dtype, [number])
            yield _series(dtype, [1.0, number])
            if dtype != "float16":
                yield _series(dtype.replace("f", "F"), [number])
    yield _series(bool, [True])
    yield _series("boolean", [True, None])
    yield _series(complex, [1 + 2j])
    yield _series(np.longdouble, [np.longdouble("0.1")])
    for unit in ("s", "ms", "us", "ns"):
        for time in (*_TIMES, None):
            naive, zoned = f"datetime64[{unit}]", f"datetime64[{unit}, America/New_York]"
            rounded = pd.Timestamp(time).as_unit(unit, round_ok=True) if time else pd.NaT
            yield _series(naive, [rounded])
            yield _series(zoned, [rounded.tz_localize(NEW_YORK) if time else pd.NaT])
        yield _series(f"timedelta64[{unit}]", [pd.Timedelta(1, "s")])
        yield _series(f"timedelta64[{unit}]", [pd.NaT])
    yield _series("datetime64[ns]", [NANO])
    for dtype in ("string", "string[pyarrow]", pd.StringDtype("pyarrow", na_value=np.nan)):
        for text in _TEXTS:
            yield _series(dtype, [text, None])
    yield _series("string[python]", ["\ud800"])
    yield _series("period[M]", [pd.Period("2024-01", "M")])
    yield _series("interval", [pd.Interval(0, 1)])
    yield _series("Sparse[int]", [1])
    yield _series("Sparse[float]", [1.5, NAN])
    yield from _pandas_categories()
    yield from _pandas_of_arrow()


def _pandas_categories() -> Iterator[Source]:
    for values in (["a", "abc", None], [1, 2], [1.9], [ZONED], [MICRO], [DAY], [pd.NaT, DAY],
                   [dt.date(2024, 1, 1)], [True], [Decimal("7.9")], [None, None]):  # fmt: skip
        categories = pd.Series(values).astype("category")
        yield Source("pandas", "category", values, pd.DataFrame({"c": categories}))
    unused = pd.Categorical(["a", "a"], categories=["a", "abcd"])
    yield Source("pandas", "category", ["a", "a"], pd.DataFrame({"c": unused}))


def _pandas_of_arrow() -> Iterator[Source]:
    for source in _arrow():
        column = source.frame["c"].combine_chunks()
        try:
            series = pd.Series(pd.arrays.ArrowExtensionArray(column))
        except (ValueError, NotImplementedError):
            continue
        frame = pd.DataFrame({"c": series})
        yield Source("pandas", f"{source.dtype}[pyarrow]", source.given, frame, nan_is_null=False)


_POLARS: Mapping[Any, list[Any]] = {
    pl.Boolean(): [True, None],
    pl.Int8(): _INTEGERS["int8"], pl.Int16(): _INTEGERS["int16"], pl.Int32(): _INTEGERS["int32"],
    pl.Int64(): _INTEGERS["int64"], pl.Int128(): [1, 2**100],
    pl.UInt8(): _INTEGERS["uint8"], pl.UInt16(): _INTEGERS["uint16"],
    pl.UInt32(): _INTEGERS["uint32"], pl.UInt64(): _INTEGERS["uint64"], pl.UInt128(): [1],
    pl.Float16(): [1.5], pl.Float32(): _FLOATS["float32"], pl.Float64(): _FLOATS["float64"],
    pl.Decimal(5, 2): [Decimal("1.5")], pl.Decimal(38, 10): [Decimal("1.5"), Decimal("1.239")],
    pl.String(): _TEXTS, pl.Categorical(): ["a", "abcd"], pl.Enum(["a", "abcd"]): ["a", "abcd"],
    pl.Binary(): [b"abc", b"abcd"], pl.Date(): [dt.date(2024, 1, 1)],
    pl.Time(): [dt.time(1, 2, 3), dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4)],
    pl.Datetime("ms"): [DAY, MILLI], pl.Datetime("us"): _TIMES, pl.Datetime("ns"): _TIMES,
    pl.Datetime("us", "America/New_York"): [ZONED], pl.Duration(): [dt.timedelta(seconds=1)],
    pl.Null(): [None], pl.Object(): [object()],
    pl.List(pl.Int64()): [[1, None], [], None, [2**40]], pl.List(pl.Float64()): [[1.5], [NAN]],
    pl.List(pl.String()): [["a"], ["abc"]], pl.List(pl.List(pl.Int64())): [[[1], None]],
    pl.List(pl.Datetime("us")): [[DAY], [MICRO]], pl.List(pl.Date()): [[dt.date(2024, 1, 1)]],
    pl.Array(pl.Float32(), 2): [[1.0, 2.5], None], pl.Array(pl.Int64(), 2): [[1, 2]],
    pl.Struct({"a": pl.Int64(), "b": pl.String()}): [{"a": 1, "b": "x"}, {"a": 2**40, "b": "x"}],
    pl.Struct({"b": pl.String(), "a": pl.Int64()}): [{"b": "x", "a": 1}],
    pl.Struct({"A": pl.Int64(), "b": pl.String()}): [{"A": 1, "b": "x"}],
    pl.Struct({"a": pl.String(), "b": pl.String()}): [{"a": "abc", "b": "x"}, {"a": "a", "b": "x"}],
    pl.Struct({"a": pl.Datetime("us")}): [{"a": DAY}, {"a": MICRO}],
    pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()}): [{"value": b"v", "metadata": b"m"}],
    pl.Struct({"a": pl.Int128()}): [{"a": 1}],
}  # fmt: skip
POLARS_DTYPES = frozenset(dtype.base_type() for dtype in _POLARS)


def _polars() -> Iterator[Source]:
    for dtype, values in _POLARS.items():
        for value in values:
            series = pl.Series("c", [value], dtype=dtype)
            frame = series.to_frame()
            yield Source("polars", str(dtype), [value], frame, nan_is_null=False)


_STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
_ARROW: Mapping[Any, list[Any]] = {
    pa.null(): [None], pa.bool_(): [True, None],
    **{getattr(pa, name)(): values for name, values in _INTEGERS.items()},
    pa.float16(): _FLOATS["float16"], pa.float32(): _FLOATS["float32"],
    pa.float64(): _FLOATS["float64"],
    **{kind(5, 2): [Decimal("1.50"), Decimal("7.00")]
       for kind in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)},
    pa.decimal128(38, 10): [Decimal("1.2390000000")], pa.decimal256(60, 3): [Decimal("1.239")],
    pa.decimal128(5, -2): [Decimal(100)],
    **{kind(): _TEXTS for kind in (pa.string, pa.large_string, pa.string_view)},
    **{kind(): [b"abc", b"abcd", b""] for kind in (pa.binary, pa.large_binary, pa.binary_view)},
    pa.binary(3): [b"abc", None], pa.date32(): [dt.date(2024, 1, 1)],
    pa.date64(): [dt.date(2024, 1, 1)], pa.time32("s"): [dt.time(1, 2, 3)],
    pa.time32("ms"): [dt.time(1, 2, 3, 4000)], pa.time64("us"): [dt.time(1), dt.time(1, 2, 3, 4)],
    pa.time64("ns"): [dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4)],
    pa.timestamp("s"): [DAY, dt.datetime(9999, 1, 1)], pa.timestamp("ms"): [DAY, MILLI],
    pa.timestamp("us"): [*_TIMES, dt.datetime(9999, 1, 1)], pa.timestamp("ns"): [*_TIMES, NANO],
    pa.timestamp("us", "America/New_York"): [ZONED], pa.timestamp("ns", "UTC"): [ZONED],
    pa.duration("s"): [dt.timedelta(seconds=1)], pa.month_day_nano_interval(): [(1, 2, 3)],
    pa.dictionary(pa.int8(), pa.string()): ["a", "abcd"],
    **{kind(pa.int64()): [[1], [1, None], [2**40], [], None]
       for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)},
    pa.list_(pa.int64(), 2): [[1, 2], None], pa.list_(pa.float32(), 2): [[1.0, 2.5], None],
    pa.list_(pa.float64()): [[1.5], [NAN]], pa.list_(pa.string()): [["a"], ["abc"]],
    pa.list_(pa.list_(pa.int64())): [[[1], None]], pa.list_(pa.timestamp("us")): [[DAY], [MICRO]],
    pa.list_(pa.dictionary(pa.int8(), pa.string())): [["a"]],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], [("a", 2**40)], [], None],
    pa.map_(pa.string(), pa.binary()): [[("a", b"ab")], [("a", b"abc")]],
    pa.map_(pa.int64(), pa.string()): [[(1, "x")]],
    _STRUCT: [{"a": 1, "b": "x"}, {"a": 2**40, "b": "x"}, None],
    pa.struct([("b", pa.string()), ("a", pa.int64())]): [{"b": "x", "a": 1}],
    pa.struct([("A", pa.int64()), ("b", pa.string())]): [{"A": 1, "b": "x"}],
    pa.struct([("a", pa.string()), ("b", pa.string())]): [{"a": "abc", "b": "x"}],
    pa.struct([("a", pa.timestamp("us"))]): [{"a": DAY}, {"a": MICRO}],
    pa.struct([("value", pa.binary()), ("metadata", pa.binary())]): [
        {"value": b"v", "metadata": b"m"}],
    pa.struct([]): [{}],
}  # fmt: skip


def _arrow() -> Iterator[Source]:
    for arrow_type, values in _ARROW.items():
        for value in values:
            column = pa.array([value], arrow_type)
            yield _arrow_source(str(arrow_type), [value], column)
    for encoded, given in (
        (pa.array([MICRO]).dictionary_encode(), MICRO),
        (pa.compute.call_function("run_end_encode", [pa.array([1])]), 1),
    ):
        yield _arrow_source(str(encoded.type), [given], encoded)
    two = pa.StructArray.from_arrays([pa.array([1]), pa.array(["x"])], ["a", "a"])
    yield _arrow_source("struct of a twice", [{"a": object()}], two)
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    yield _arrow_source("union", [1], union)
    for extension, storage in (
        (pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))),
        (pa.json_(pa.string()), pa.array(["1"])),
        (pa.bool8(), pa.array([1], pa.int8())),
        (pa.fixed_shape_tensor(pa.float32(), [2]), pa.array([[1, 2]], pa.list_(pa.float32(), 2))),
    ):
        column = pa.ExtensionArray.from_storage(extension, storage)
        plain: Any = pa.table({"c": column})["c"].to_pylist()
        yield _arrow_source(str(extension), plain, column)


def _arrow_source(dtype: str, given: list[Any], column: Any) -> Source:
    return Source("arrow", dtype, given, pa.table({"c": column}), nan_is_null=False)


def is_same(given: Any, stored: Any, *, nan_is_null: bool = True) -> bool:  # noqa: PLR0911
    """Whether a stored value is exactly the given one; null where it was missing."""
    if _is_missing(given, nan_is_null=nan_is_null):
        return stored is None
    if stored is None:
        return False
    match given:
        case bool() | np.bool_():
            return isinstance(stored, bool) and stored == bool(given)
        case int() | float() | Decimal() | np.integer() | np.floating():
            return _is_same_number(given, stored)
        case str():
            return isinstance(stored, str) and stored == given
        case bytes() | bytearray():
            return isinstance(stored, bytes) and stored == bytes(given)
        case dt.datetime():
            return _is_same_time(given, stored)
        case dt.date() | dt.time():
            return type(stored) is type(given) and stored == given
        case dict():
            return _is_same_dict(given, stored, nan_is_null=nan_is_null)
        case list() | tuple() | np.ndarray():
            return _is_same_list(list(given), stored, nan_is_null=nan_is_null)
        case _:
            return False


def _is_missing(given: Any, *, nan_is_null: bool) -> bool:
    if not nan_is_null or given is None:
        return given is None
    if given is pd.NaT or given is pd.NA:
        return True
    if isinstance(given, Decimal):
        return given.is_nan()
    return isinstance(given, float | np.floating) and given != given


def _is_same_number(given: Any, stored: Any) -> bool:
    if isinstance(stored, bool) or not isinstance(stored, int | float | Decimal):
        return False
    if given != given:
        return stored != stored
    if isinstance(given, np.generic):
        given = given.item()
    return not isinstance(given, np.generic) and stored == given


def _is_same_time(given: Any, stored: Any) -> bool:
    if type(stored) is dt.date:  # pandas has no days but midnights
        return given.tzinfo is None and pd.Timestamp(stored) == given
    if not isinstance(stored, dt.datetime) or (given.tzinfo is None) != (stored.tzinfo is None):
        return False
    return bool(stored == given) and getattr(stored, "nanosecond", 0) == getattr(
        given, "nanosecond", 0
    )


def _is_same_dict(given: dict[Any, Any], stored: Any, *, nan_is_null: bool) -> bool:
    if isinstance(stored, list):  # a MAP
        return _is_same_list(list(given.items()), stored, nan_is_null=nan_is_null)
    if not isinstance(stored, dict) or not set(given) <= set(stored):
        return False
    return all(
        is_same(given.get(name), value, nan_is_null=nan_is_null) for name, value in stored.items()
    )


def _is_same_list(given: list[Any], stored: Any, *, nan_is_null: bool) -> bool:
    if not isinstance(stored, list | tuple) or len(stored) != len(given):
        return False
    return all(is_same(*pair, nan_is_null=nan_is_null) for pair in zip(given, stored, strict=True))
