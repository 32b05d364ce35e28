"""Foreign files drawn from a seed: of any schema, whole and damaged, and tables that take them."""

import io
import json
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from paimon_assets import Schema
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from tests.testkit.foreign_bytes import Case

_TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)",
    "DECIMAL(38, 10)", "CHAR(3)", "VARCHAR(4)", "STRING", "BINARY(3)", "BYTES", "DATE", "TIME(3)",
    "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(6)",
    "INT NOT NULL", "STRING NOT NULL", "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>",
    "ROW<x INT, y STRING>", "ARRAY<ROW<x DATE>>",
)  # fmt: skip
_NAMES = ("a", "b", "A", "id", "value", "v", "ü", "a b", "")
_ARROW: tuple[Any, ...] = (
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2),
    pa.decimal128(38, 10), pa.decimal128(38, 2), pa.decimal256(60, 3), pa.string(),
    pa.large_string(),
    pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"),
    pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Paris"), pa.duration("us"), pa.month_day_nano_interval(),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()),
)  # fmt: skip
_RELATED: tuple[tuple[Any, ...], ...] = (
    tuple(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    (pa.float16(), pa.float32(), pa.float64()),
    tuple(pa.decimal128(*size) for size in ((5, 2), (4, 2), (20, 2), (38, 10), (38, 2), (9, 4))),
    (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
     pa.binary(), pa.large_binary(), pa.binary(3)),
    (pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
     *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns"))),
    (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
)  # fmt: skip
_BITS = (1, 7, 8, 15, 16, 31, 32, 47, 53, 62, 63)
_AVRO: tuple[Any, ...] = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
    {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-nanos"}, {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2},
    {"type": "fixed", "name": "F", "size": 3}, {"type": "enum", "name": "E", "symbols": ["x", "y"]},
    {"type": "array", "items": "int"}, {"type": "map", "values": "string"}, ["int", "string"],
    ["null", "long"], ["string", "null"], "r", {"type": "array", "items": "r"}, [],
)  # fmt: skip
_JSON = ("null", "true", "1", "-0.5", "1e400", "123456789012345678901234567890", '"x"', '"\\ud800"',
         '"2024-02-29"', '"2024-02-29T10:00:00Z"', '"99999-01-01"', '"YWJj"', "[]", "[1, null]",
         "{}",
         '{"x": 1}', '{"k": null}', '"1"', '"\\u0000"', "NaN", '"abcdefgh"',
         "-Infinity", "1" * 5000, "01", "{'a': 1}")  # fmt: skip
_CSV = ("", "1", "-1", "300", "1e400", "x", '"a,b"', '"a\nb"', '"', "2024-02-29", "0000-00-00",
        "1.234",
        "true", "2024-02-29 10:00:00.123456789", "\\", '\\"', "NULL", "ü", "99999-01-01",
        "10:00:00")  # fmt: skip
FORMATS = ("parquet", "orc", "avro", "arrow", "csv", "json", "text")


def case_of(seed: int) -> Case:
    """Draw a file and a table; files that Arrow cannot write are replaced."""
    draw = Random(seed)  # noqa: S311 - no secret
    file_format = draw.choice(FORMATS)
    columns = (("value", "STRING"),) if file_format == "text" else _columns(draw)
    writers = {"csv": _csv, "json": _json, "text": _text, "avro": _avro}
    written_as = file_format if draw.random() < 0.97 else draw.choice(FORMATS)
    has_wrong_texts = draw.random() < 0.2
    if written_as in writers:
        data = writers[written_as](draw, columns)
    else:
        data = _arrow(draw, written_as, columns, b"\xff\xfe" if has_wrong_texts else b"x")
    if written_as in writers and written_as != "avro" and draw.random() < 0.05:
        data = data.decode().encode(draw.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32")))
    is_damaged = draw.random() < 0.25
    return Case(
        file_format=file_format,
        data=_damage(draw, data) if is_damaged else data,
        # No footer speaks of texts that are not UTF-8.
        is_damaged=is_damaged or has_wrong_texts,
        columns=columns,
        options=_options(draw, file_format),
    )


def _columns(draw: Random) -> tuple[tuple[str, str], ...]:
    names = draw.sample(("a", "b", "id", "value", "v", "ü"), draw.randint(1, 3))
    return tuple((name, draw.choice(_TYPES)) for name in names)


def _options(draw: Random, file_format: str) -> tuple[tuple[str, str], ...]:
    choices: dict[str, dict[str, tuple[str, ...]]] = {
        "csv": {"sep": (";", "\\t"), "header": ("true", "false"), "quote": ("'", ""),
                "escape": ("\\",), "comment": ("#",), "multiLine": ("true", "false"),
                "nullValue": ("NULL",), "encoding": ("utf-16", "latin-1"),
                "dateFormat": ("yyyy-MM-dd",), "locale": ("de",), "mode": ("FAILFAST",)},
        "json": {"multiLine": ("true", "false"), "encoding": ("utf-16",),
                 "timestampFormat": ("yyyy-MM-dd HH:mm:ss",)},
        "text": {"lineSep": (";",), "encoding": ("latin-1",)},
    }  # fmt: skip
    return tuple(
        (key, draw.choice(values))
        for key, values in choices.get(file_format, {}).items()
        if draw.random() < 0.07
    )


def _damage(draw: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0 if place < len(changed):
                changed[place] = draw.randrange(256)
            case 1:
                del changed[place : place + draw.randint(1, 30)]
            case 2:
                changed[place:place] = draw.randbytes(draw.randint(1, 8))
            case 3 if draw.random() < 0.3:
                del changed[place:]
            case _:
                changed[place:place] = changed[draw.randrange(len(changed) + 1) :][:20]
    return bytes(changed)


def _fields(draw: Random, columns: tuple[tuple[str, str], ...]) -> list[str]:
    names = [name for name, _ in columns]
    if draw.random() < 0.1:
        names += draw.choices(_NAMES, k=draw.randint(1, 2))
    if draw.random() < 0.1:
        names = names[1:]
    return names


def _json(draw: Random, columns: tuple[tuple[str, str], ...]) -> bytes:
    def value(depth: int) -> str:
        if depth and draw.random() < 0.2:
            if draw.random() < 0.5:
                return "[" + ", ".join(value(depth - 1) for _ in range(draw.randint(0, 3))) + "]"
            return "{" + f'"x": {value(depth - 1)}' + "}"
        return draw.choice(_JSON)

    lines = []
    for _ in range(draw.randint(0, 4)):
        members = (
            f"{json.dumps(name)}: {_fitting(draw, dict(columns).get(name)) or value(3)}"
            for name in _fields(draw, columns)
        )
        lines.append("{" + ", ".join(members) + "}")
        if draw.random() < 0.04:
            lines.append(value(2))
    if draw.random() < 0.04:
        levels = draw.choice((100, 127, 129, 1000, 30_000))
        lines.append('{"a": ' + "[" * levels + "1" + "]" * levels + "}")
    if draw.random() < 0.2:
        return f"[{', '.join(lines)}]".encode()
    return draw.choice(("\n", "\n", "\r\n", " ")).join(lines).encode()


_FITTING = {
    "BOOLEAN": ("true", "false"), "INT": ("1", "-7", "3000000000"), "TINYINT": ("1", "300"),
    "BIGINT": ("1", "99999999999999999999"), "DOUBLE": ("1.5", "1e999", "NaN"), "FLOAT": ("1.5",),
    "DECIMAL(5, 2)": ("1.25", "12345.678", "1"), "DATE": ("2024-02-29", "12024-01-01"),
    "TIMESTAMP(3)": ("2024-02-29 10:00:00.5", "2024-02-29 10:00:00.123456"),
    "TIME(3)": ("10:00:00",),
    "TIMESTAMP(6)": ("2024-02-29 10:00:00", "0001-01-01 00:00:00"), "STRING": ("a", "ü"),
    "VARCHAR(4)": ("abcd", "abcdefgh"), "CHAR(3)": ("abc", "abcdef"), "BYTES": ("YWJj", "Y"),
}  # fmt: skip


def _fitting(draw: Random, column: str | None) -> str:
    values = _FITTING.get((column or "").removesuffix(" NOT NULL"))
    if values is None or draw.random() < 0.15:
        return ""
    text = draw.choice(values)
    is_bare = text in ("true", "false", "NaN") or (
        text.lstrip("-")[:1].isdigit() and "-" not in text[1:]
    )
    return text if is_bare and ":" not in text else json.dumps(text)


def _csv(draw: Random, columns: tuple[tuple[str, str], ...]) -> bytes:
    names = _fields(draw, columns)
    lines = [",".join(names)]
    for _ in range(draw.randint(0, 4)):
        width = len(names) + (draw.randint(-1, 1) if draw.random() < 0.1 else 0)
        cells = [_fitting(draw, dict(columns).get(name)) or draw.choice(_CSV) for name in names]
        lines.append(",".join([*cells, "x"][:width]))
    return draw.choice(("\n", "\r\n", "\r")).join(lines).encode()


def _text(draw: Random, _columns: tuple[tuple[str, str], ...]) -> bytes:
    return "\n".join(draw.choice(_CSV) for _ in range(draw.randint(0, 5))).encode()


def _avro(draw: Random, columns: tuple[tuple[str, str], ...]) -> bytes:
    schema: Any = {
        "type": "record", "name": "r",
        "fields": [{"name": name, "type": _avro_type(draw, dict(columns).get(name))}
                   for name in _fields(draw, columns)],
    }  # fmt: skip
    match draw.randrange(12):
        case 0:
            schema = draw.choice(_AVRO)
        case 1:
            schema = ["null", schema]
        case 2:
            for _ in range(draw.choice((5, 90, 500))):
                schema = {"type": "array", "items": schema}
            schema = {"type": "record", "name": "s", "fields": [{"name": "a", "type": schema}]}
        case _:
            pass
    body = draw.randbytes(draw.choice((0, 1, 5, 40))) if draw.random() < 0.5 else bytes(9)
    return _container(schema, draw.choice((0, 1, 1, 2)), body)


def _container(schema: Any, count: int, body: bytes) -> bytes:
    sink, sync = io.BytesIO(), bytes(range(16))
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    sink.write(b"Obj\x01")
    fastavro.schemaless_writer(sink, {"type": "map", "values": "bytes"}, metadata)
    sink.write(sync)
    if count:
        fastavro.schemaless_writer(sink, "long", count)
        fastavro.schemaless_writer(sink, "long", len(body))
        sink.write(body + sync)
    return sink.getvalue()


def avro_of(kind: Any, values: list[int | None]) -> bytes:
    """Return a file of one column `t`: a union of null and an integer, of whatever meaning."""
    plain, body = ["null", kind[1]["type"]], io.BytesIO()
    for value in values:
        fastavro.schemaless_writer(body, plain, value)
    record = {"type": "record", "name": "r", "fields": [{"name": "t", "type": kind}]}
    return _container(record, len(values), body.getvalue())


_AVRO_OF = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long",
    "FLOAT": "float", "DOUBLE": "double", "STRING": "string", "VARCHAR(4)": "string",
    "BYTES": "bytes", "BINARY(3)": "bytes", "DATE": {"type": "int", "logicalType": "date"},
    "TIME(3)": {"type": "int", "logicalType": "time-millis"},
    "TIMESTAMP(3)": {"type": "long", "logicalType": "timestamp-millis"},
    "TIMESTAMP(6)": {"type": "long", "logicalType": "timestamp-micros"},
    "DECIMAL(5, 2)": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "ARRAY<INT>": {"type": "array", "items": "int"},
    "MAP<STRING, INT>": {"type": "map", "values": "int"},
}  # fmt: skip


def _avro_type(draw: Random, column: str | None) -> Any:
    if draw.random() < 0.2:
        return draw.choice(_AVRO)
    kind = _AVRO_OF.get((column or "INT").removesuffix(" NOT NULL"), "string")
    return kind if draw.random() < 0.5 else ["null", kind]


def _arrow_type(draw: Random, depth: int = 2) -> Any:
    if not depth or draw.random() < 0.75:
        return draw.choice(_ARROW)
    inner = _arrow_type(draw, depth - 1)
    match draw.randrange(6):
        case 0:
            return pa.list_(inner)
        case 1:
            return pa.large_list(inner)
        case 2:
            return pa.struct([pa.field("x", inner), pa.field("y", _arrow_type(draw, 0))])
        case 3:
            return pa.map_(pa.string(), inner)
        case 4:
            return pa.list_(inner, 2)
        case _:
            return pa.struct([])


def _array(draw: Random, kind: Any, count: int, text: bytes) -> Any:
    """Return values of a type made from wild bits; `text` is one of the texts."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = draw.choices((b"", b"a", b"abcdef", "ü".encode(), text), k=count)
        wide = pa.array(texts, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
        return pa.Array.from_buffers(kind, count, wide.buffers())
    bits = [draw.choice((-1, 1)) * draw.randrange(1 << draw.choice(_BITS)) for _ in range(count)]
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width = kind.bit_width
        narrow = [max(min(bit, 2 ** (width - 1) - 1), -(2 ** (width - 1))) for bit in bits]
        return pa.array(narrow, pa.int32() if width == 32 else pa.int64()).view(kind)
    for values in (bits, [bit % 100 for bit in bits], [str(bit) for bit in bits],
                   [str(bit % 100).encode().zfill(3)[:3] for bit in bits]):  # fmt: skip
        try:
            return pa.array(values).cast(kind) if draw.random() < 0.5 else pa.array(values, kind)
        except (pa.ArrowException, TypeError, OverflowError, ValueError):
            continue
    return pa.nulls(count, kind)


def _arrow(
    draw: Random, file_format: str, columns: tuple[tuple[str, str], ...], text: bytes
) -> bytes:
    count = draw.choice((0, 1, 3))
    declared = to_arrow_schema(Schema.of(dict(columns)).fields)
    fields: list[Any] = []
    kind: Any
    for name in _fields(draw, columns):
        kind = declared.field(name).type if name in declared.names else pa.null()
        related = [each for family in _RELATED if kind in family for each in family]
        match draw.randrange(10):
            case 0 | 1:
                kind = _arrow_type(draw)
            case 2 | 3 | 4 if related:
                kind = draw.choice(related)
            case _:
                pass
        fields.append(pa.field(name, kind))
    if draw.random() < 0.05:
        kind = pa.int32()
        for _ in range(draw.choice((60, 200, 800))):
            kind = pa.list_(kind)
        fields.append(pa.field("a", kind))
    arrays = [_array(draw, field.type, count, text) for field in fields]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    sink = io.BytesIO()
    try:
        if file_format == "parquet":
            pq.write_table(
                table, sink, store_schema=draw.random() < 0.8,
                use_deprecated_int96_timestamps=draw.random() < 0.1,
                write_statistics=draw.random() < 0.8,
            )  # fmt: skip
        elif file_format == "orc":
            orc.write_table(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    except (pa.ArrowException, OSError, KeyError, RecursionError):
        return sink.getvalue()
    return sink.getvalue()
