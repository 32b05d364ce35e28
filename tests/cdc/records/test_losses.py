"""A value of a record is read back equal, or is refused with a way out."""

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from paimon_assets.cdc.records.change_batch import CdcOptions, SourceTable, TimeMode, TypeMapping
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.cdc.kit.cdc_replay import Replay, changes
from tests.cdc.records.test_debezium import DBZ, base, envelope, record

TIMES, CONNECT = f"{DBZ}time.", "org.apache.kafka.connect.data."
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
_TIMES_OF_DAY = st.one_of(
    st.integers(0, DAY - 1).map(lambda second: second * 10**9),
    st.integers(0, DAY * 10**3 - 1).map(lambda milli: milli * 10**6),
    st.integers(0, DAY * 10**6 - 1).map(lambda micro: micro * 10**3),
    st.integers(-840 * 3600 * 10**9, 840 * 3600 * 10**9),
)
_INSTANTS = st.one_of(
    st.integers(-(10**9), 4 * 10**9).map(lambda second: second * 10**9),
    st.integers(-(10**12), 10**12).map(lambda milli: milli * 10**6),
    st.integers(-(10**15), 10**15).map(lambda micro: micro * 10**3),
    st.integers(-(10**18), 10**18),
)


def column(
    wire: Any,
    schema: dict[str, Any] | None,
    declared: str | None = None,
    options: CdcOptions | None = None,
) -> tuple[str, Any]:
    """Return the type and the values of a column of one record; `wire` may be the text of JSON."""
    known = SourceTable(columns={} if declared is None else {"v": parse_type(declared)})
    options = CdcOptions(
        table_of=lambda _: known, time=(options or CdcOptions()).time,
        type_mapping=(options or CdcOptions()).type_mapping,
    )  # fmt: skip
    shape = None if schema is None else envelope({**schema, "field": "v", "optional": True})
    text = json.dumps(record("c", None, {"v": "?"}, schema=shape))
    wire = wire if isinstance(wire, str) else json.dumps(wire)
    [batch] = changes([text.replace('"?"', wire)], "debezium-json", options)
    return str(batch.fields[0].type), batch.rows["v"].combine_chunks()


def read(*args: Any, **more: Any) -> tuple[str, Any] | None:
    """Return a column as `column` does; None if the value is refused with a way out."""
    try:
        values = column(*args, **more)
    except FormatError as error:
        if not re.search("declare the column as|decimal.handling.mode|type_mapping=", str(error)):
            raise
        event("refused")
        return None
    event("read")
    return values


def nanos_of(values: Any) -> int:
    """Return a time, or a text of one, as nanoseconds."""
    if pa.types.is_string(values.type):
        text = values[0].as_py()
        sign = -1 if text.startswith("-") else 1
        clock, _, digits = text.lstrip("-").removesuffix("Z").partition(".")
        hours, minutes, seconds = map(int, clock.split(":"))
        whole = (hours * 60 + minutes) * 60 + seconds
        return sign * (whole * 10**9 + int(digits.ljust(9, "0")))
    unit = values.type.unit
    number = values.cast(pa.int32() if unit in ("s", "ms") and pa.types.is_time(values.type)
                         else pa.int64())[0].as_py()  # fmt: skip
    return int(number) * (10**9 // PER_SECOND[unit])


def clock(nanos: int, digits: int = 9) -> str:
    seconds, rest = divmod(abs(nanos), 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{rest:09}"[: digits + 1] if digits else ""
    return f"{'-' * (nanos < 0)}{text}{fraction}"


@pytest.mark.hunt
@given(
    nanos=_TIMES_OF_DAY,
    form=st.sampled_from(["Time", "MicroTime", "NanoTime", "IsoTime", "ZonedTime", ""]),
    declared=st.sampled_from([None, "TIME(0)", "TIME(3)", "TIME(6)", "STRING", "all texts"]),
)
@example(-1, "IsoTime", None)
def test_time_of_day_is_exact_or_refused(nanos: int, form: str, declared: Any) -> None:
    options = None
    if declared == "all texts":
        declared, options = None, CdcOptions(type_mapping=frozenset({TypeMapping.TO_STRING}))
    if form in ("IsoTime", "ZonedTime", ""):
        nanos %= DAY * 10**9
        wire: Any = json.dumps(f"{clock(nanos)}{'Z' if form else ''}")
        schema = {"type": "string", "name": TIMES + form} if form else None
    else:
        unit = {"Time": "ms", "MicroTime": "us", "NanoTime": "ns"}[form]
        wire = nanos // (10**9 // PER_SECOND[unit])
        nanos = wire * (10**9 // PER_SECOND[unit])
        schema = {"type": "int64", "name": TIMES + form}
    values = read(wire, schema, declared, options)
    if values is not None:
        assert nanos_of(values[1]) == nanos
    is_time = form not in ("ZonedTime", "") or declared not in (None, "STRING")
    fits = 0 <= nanos < DAY * 10**9 and nanos % 10**6 == 0
    is_text = declared == "STRING" or options is not None or not is_time
    assert (values is not None) == (is_text or fits)
    if schema and schema["type"] == "int64":
        assert column(wire, schema, "BIGINT")[1].to_pylist() == [wire]


@pytest.mark.hunt
@given(
    nanos=_INSTANTS,
    form=st.sampled_from(["Timestamp", "MicroTimestamp", "NanoTimestamp", "IsoTimestamp",
                          "ZonedTimestamp", *TimeMode]),
    precision=st.sampled_from([None, 0, 3, 6, 9]),
)  # fmt: skip
def test_timestamp_is_exact_or_refused(nanos: int, form: str, precision: Any) -> None:
    kind = "TIMESTAMP({}) WITH LOCAL TIME ZONE" if form == "ZonedTimestamp" else "TIMESTAMP({})"
    declared = None if precision is None else kind.format(precision)
    options, unit, schema = None, "ns", {"type": "int64", "name": TIMES + form}
    if form in ("IsoTimestamp", "ZonedTimestamp"):
        instant = pa.scalar(nanos, pa.timestamp("ns")).cast(pa.string()).as_py()
        wire: Any = json.dumps(instant.replace(" ", "T") + "Z")
        schema["type"] = "string"
    elif isinstance(form, TimeMode):
        options, schema = CdcOptions(time=form), None  # type: ignore[assignment]
        declared = declared or "TIMESTAMP(6)"
        coarse = int(declared[10]) <= 3
        unit = {"connect": "ms", "nanoseconds": "ns", "microseconds": "us"}.get(
            form, "ms" if coarse else "us"
        )
        wire = nanos // (10**9 // PER_SECOND[unit])
    else:
        unit = {"T": "ms", "M": "us", "N": "ns"}[form[0]]
        wire = nanos // (10**9 // PER_SECOND[unit])
    if isinstance(wire, int):
        nanos = wire * (10**9 // PER_SECOND[unit])
    values = read(wire, schema, declared, options)
    if values is not None:
        assert nanos_of(values[1]) == nanos
    elif precision is not None:
        assert column(wire, schema, kind.format(9), options)  # the type that the message names


def real_of(values: Any) -> float:
    return float(values[0].as_py())


@pytest.mark.hunt
@example(18_014_398_509_481_983)
@given(value=st.one_of(st.integers(-(2**64), 2**64), st.integers(-(10**40), 10**40)))
@pytest.mark.parametrize("declared", ["FLOAT", "DOUBLE"])
def test_integer_is_exact_in_float_or_refused(declared: str, value: int) -> None:
    values = read(value, None, declared)
    if values is not None:
        assert int(real_of(values[1])) == value
    assert (values is None) == (_nearest(declared, str(value)) != value)


def _nearest(kind: str, text: str) -> float:
    if kind == "DOUBLE":
        return float(text)
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return float("inf")


@pytest.mark.hunt
@given(
    value=st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9,
                      places=12) | st.floats(allow_nan=False, allow_infinity=False).map(Decimal),
    digits=st.integers(1, 25),
)  # fmt: skip
@pytest.mark.parametrize("declared", ["FLOAT", "DOUBLE"])
def test_number_is_rounded_to_its_digits_or_refused(
    declared: str, value: Decimal, digits: int
) -> None:
    text = f"{value:.{digits - 1}e}"
    values = read(text, None, declared)
    real = _nearest(declared, text)
    if values is not None:
        assert real_of(values[1]) == real
        most = 8 if declared == "FLOAT" else 15
        shown = min(len(Decimal(text).normalize().as_tuple().digits) - 1, most)
        if abs(real) > 1e-300:
            gap = abs(Fraction(real) - Fraction(text))
            assert gap <= Fraction(10) ** (Decimal(text).adjusted() - shown)
    elif abs(real) != float("inf") and (real or not Decimal(text)):
        assert f"{Decimal(real):.{digits - 1}e}" != text or digits > 17


@pytest.mark.hunt
@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
@pytest.mark.parametrize("declared", ["FLOAT", "DOUBLE"])
def test_floats_in_texts_of_java_are_read(declared: str, value: float) -> None:
    """A FLOAT is written as its shortest text, or as that of the same DOUBLE."""
    texts = [repr(value)]
    if declared == "FLOAT":
        texts.append(np.format_float_scientific(np.float32(value)).replace(".e", "e"))
    for text in texts:
        assert real_of(column(text, None, declared)[1]) == value


@pytest.mark.hunt
@example(number=1, scale=39, form="fixed", declared="DECIMAL(38, 4)")
@given(
    number=st.integers(-(10**80), 10**80) | st.integers(-(10**12), 10**12),
    scale=st.integers(-90, 90) | st.integers(0, 12),
    form=st.sampled_from(["fixed", "variable"]),
    declared=st.sampled_from([None, "DECIMAL(38, 4)", "DECIMAL(38, 0)", "BIGINT", "VARCHAR(200)"]),
)
def test_decimal_is_exact_or_refused(
    number: int, scale: int, form: str, declared: str | None
) -> None:
    text = base(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
    schema: dict[str, Any] = {"type": "bytes", "name": f"{CONNECT}Decimal",
                              "parameters": {"scale": str(scale)}}  # fmt: skip
    wire: Any = json.dumps(text)
    if form == "variable":
        schema = {"type": "struct", "name": f"{DBZ}data.VariableScaleDecimal", "fields": []}
        wire = {"scale": scale, "value": text}
    values = read(wire, schema, declared)
    if values is not None:
        assert Fraction(values[1][0].as_py()) == Fraction(number) / Fraction(10) ** scale
    elif scale >= 0 and declared in (None, "VARCHAR(200)"):
        most = 20 if scale == 0 else 38  # whole numbers of unknown length are DECIMAL(20, 0)
        assert len(str(abs(number))) > most or scale > 76


def source_type(kind: str, name: str, length: int = 0) -> dict[str, Any]:
    parameters = {"__debezium.source.column.type": name}
    if length:
        parameters["__debezium.source.column.length"] = str(length)
    return {"type": kind, "parameters": parameters}


@pytest.mark.hunt
@given(value=st.integers(-128, 127))
def test_flag_with_another_number_is_refused(value: int) -> None:
    values = read(value, source_type("int16", "TINYINT", 1))
    assert (values is None) == (value not in (0, 1))
    as_number = CdcOptions(type_mapping=frozenset({TypeMapping.TINYINT1_NOT_BOOL}))
    kind, values = column(value, source_type("int16", "TINYINT", 1), None, as_number)
    assert (kind, values.to_pylist()) == ("TINYINT", [value])


@pytest.mark.hunt
@given(value=st.integers(0, 2**64 - 1))
def test_unsigned_numbers_are_those_of_source(value: int) -> None:
    """The connector's mode `long` gives those from 2^63 on as negative ones."""
    wire = value - 2**64 if value >= 2**63 else value
    kind, values = column(wire, source_type("int64", "BIGINT UNSIGNED"))
    assert (kind, values.to_pylist()) == ("DECIMAL(20, 0)", [Decimal(value)])


CANAL: dict[str, tuple[st.SearchStrategy[str], Callable[[str], Any]]] = {
    "time(6)": (_TIMES_OF_DAY.map(lambda nanos: clock(nanos % (DAY * 10**9), 6)), str),
    "datetime(6)": (
        _INSTANTS.map(lambda nanos: pa.scalar(nanos // 10**3, pa.timestamp("us"))
                           .cast(pa.string()).as_py()), str),
    "datetime": (
        _INSTANTS.map(lambda nanos: pa.scalar(nanos // 10**6, pa.timestamp("ms"))
                           .cast(pa.string()).as_py()), str),
    "decimal(9,3)": (st.decimals(-(10**6), 10**6, places=4).map(str), Decimal),
    "float": (st.integers(-(2**40), 2**40).map(str), int),
    "double": (st.integers(-(2**60), 2**60).map(str), int),
    "bigint unsigned": (st.integers(0, 2**65).map(str), int),
    "tinyint(1)": (st.integers(0, 3).map(str), int),
    "year": (st.integers(0, 2155).map(str), int),
    "bit(12)": (st.integers(0, 2**13).map(str), int),
    "blob": (st.binary().map(lambda data: data.decode("latin1")), str),
}  # fmt: skip


@pytest.mark.hunt
@given(data=st.data())
@pytest.mark.parametrize("kind", CANAL)
def test_text_of_canal_is_exact_or_refused(kind: str, data: st.DataObject) -> None:
    texts, of = CANAL[kind]
    text = data.draw(texts)
    line = json.dumps({
        "type": "INSERT", "database": "shop", "table": "t", "data": [{"v": text}],
        "mysqlType": {"v": kind}, "isDdl": False, "ts": 5, "id": 5,
    })  # fmt: skip
    try:
        [batch] = changes([line], "canal-json")
    except FormatError:
        event("refused")
        return
    value: Any = batch.rows["v"].to_pylist()[0]
    if kind == "bit(12)":
        value = int.from_bytes(value, "big")
    elif kind == "blob":
        value = value.decode("latin1")
    elif kind.startswith(("time", "datetime")):
        instant = batch.rows["v"].cast(pa.string())[0].as_py()
        value, text = (re.sub(r"\.?0*$", "", f"{each}.0"[: len(each) + 2 * ("." not in each)])
                       for each in (instant, text))  # fmt: skip
    assert of(str(value) if of is not int else value) == of(text)


_ROWS = st.fixed_dictionaries(
    {"d": st.sampled_from([None, 0, 1, -719_529, 2**31 - 1])},
    optional={"k": st.sampled_from([None, 1, 2])},
)


@given(changed=st.lists(st.tuples(st.sampled_from("cud"), _ROWS), min_size=1))
def test_rejected_row_leaves_no_row_behind_its_delete(changed: list[tuple[str, Any]]) -> None:
    shape = envelope({"type": "int64", "field": "k"},
                     {"type": "int32", "name": f"{TIMES}Date", "field": "d"})  # fmt: skip
    known = SourceTable(keys=("k",))
    rejected: list[Any] = []
    options = CdcOptions(table_of=lambda _: known, on_rejected=rejected.append)
    lines = [json.dumps(record(op, row if op == "d" else None, None if op == "d" else row,
                               schema=shape)) for op, row in changed]  # fmt: skip
    replay = Replay(["k"]).apply(changes(lines, "debezium-json", options))
    rows: dict[Any, Any] = {}
    bad = []
    for line, (op, row) in enumerate(changed, 1):
        if row.get("k") is None or (op != "d" and row["d"] not in (None, 0, 1)):
            bad.append(line)
        elif op == "d":
            rows.pop(row["k"], None)
        else:
            rows[row["k"]] = row["d"] if row["d"] is None else date(1970, 1, 1 + row["d"])
    assert {row["k"]: row["d"] for row in replay.tables.get("t", {}).values()} == rows
    assert [line for each in rejected for line in each["line"].to_pylist()] == bad


@given(data=st.binary(max_size=40))
def test_bytes_are_those_of_their_text(data: bytes) -> None:
    wire = json.dumps(base64.b64encode(data).decode())
    assert column(wire, {"type": "bytes"})[1].to_pylist() == [data]


@given(
    form=st.sampled_from([("Date", "int32", 1), ("Timestamp", "int64", 86_400_000),
                          ("MicroTimestamp", "int64", 86_400_000_000)]),
    days=st.integers(-719_540, 2_932_900) | st.sampled_from([-719_529, -719_528, 2_932_896]),
    is_infinite=st.booleans(),
    mapping=st.sampled_from([None, TypeMapping.TO_STRING]),
    is_declared=st.booleans(),
)  # fmt: skip
def test_time_has_its_year_or_is_refused(
    form: tuple[str, str, int], days: int, mapping: TypeMapping | None, *,
    is_infinite: bool, is_declared: bool,
) -> None:  # fmt: skip
    name, kind, per_day = form
    number = 2**63 - 1 if is_infinite and kind == "int64" else days * per_day
    options = CdcOptions(type_mapping=frozenset({mapping} if mapping else ()))
    declared = "STRING" if is_declared and not mapping else None
    call = partial(column, number, {"type": kind, "name": f"{DBZ}time.{name}"}, declared, options)
    if not -719_528 * per_day <= number <= 2_932_896 * per_day:
        with pytest.raises(FormatError, match="outside the years 0 to 9999"):
            call()
        return
    values, data_type = call()[1], parse_type("DATE")
    if pa.types.is_string(values.type):
        values = cast_array(pc.utf8_slice_codeunits(values, 0, 10), parse_type("STRING"), data_type)
    else:
        values = values.cast(pa.date32())
    assert values.cast(pa.int32())[0].as_py() == days


@pytest.mark.parametrize("mapping", [(), (TypeMapping.TO_STRING,)])
@pytest.mark.parametrize(
    ("name", "wire", "text"),
    [
        ("IsoDate", "2020-01-02", "2020-01-02"),
        ("IsoDate", "-0044-03-15", None),
        ("IsoTimestamp", "+12345-01-02T03:04:05", None),
        ("IsoTimestamp", "2020-01-02T03:04:05.123456789", None),
        ("ZonedTimestamp", "-infinity", None),
        ("ZonedTimestamp", "2020-01-02T03:04:05Z", "2020-01-02 03:04:05.000000"),
    ],
)
def test_iso_text_that_no_type_holds_is_kept_as_string(
    name: str, wire: str, text: str | None, mapping: tuple[TypeMapping, ...]
) -> None:
    call = partial(column, json.dumps(wire), {"type": "string", "name": f"{TIMES}{name}"})
    options = CdcOptions(type_mapping=frozenset(mapping))
    values = call(None if mapping else "STRING", options)
    assert (values[0], values[1].to_pylist()) == ("STRING", [text or wire])
    if text is None:
        with pytest.raises(FormatError, match="declare the column as "):
            call()
