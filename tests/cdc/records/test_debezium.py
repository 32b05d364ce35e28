"""Debezium's records: encodings of the connectors' modes, missing values, keys, order, refusals."""

import base64
import json
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import (
    AbsentValue,
    BinaryMode,
    CdcOptions,
    ChangeBatch,
    EventKind,
    SourceTable,
    TimeMode,
    TypeMapping,
)
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.cdc.kit.cdc_replay import changes, in_log_order, rows_of
from tests.cdc.kit.change_logs import with_fields

UNKNOWN = "__debezium_unavailable_value"
PG = {"connector": "postgresql", "name": "srv", "db": "shop", "schema": "public", "table": "t"}
MYSQL = {"connector": "mysql", "name": "srv", "db": "shop", "table": "t", "server_id": 7}


def record(
    op: str, before: Any = None, after: Any = None, source: Any = None, schema: Any = None
) -> dict[str, Any]:
    payload = {"before": before, "after": after, "source": {**PG, **(source or {})}, "op": op}
    return payload if schema is None else {"schema": schema, "payload": payload}


def envelope(*fields: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "struct", "fields": list(fields), "optional": True, "field": "after"}
    return {"type": "struct", "fields": [{**row, "field": "before"}, row,
                                         {"type": "string", "field": "op"}]}  # fmt: skip


def read(*records: Any, options: CdcOptions | None = None, kind: str = "debezium-json") -> Any:
    lines = [text if isinstance(text, str) else json.dumps(text) for text in records]
    return changes(lines, kind, options)


def only(*records: Any, options: CdcOptions | None = None) -> ChangeBatch:
    """Return the one batch of some records."""
    batch: ChangeBatch
    (batch,) = read(*records, "", options=options)
    return batch


def base(value: bytes) -> str:
    return base64.b64encode(value).decode()


CONNECT = "org.apache.kafka.connect.data."
DECIMAL = {"type": "bytes", "name": f"{CONNECT}Decimal",
           "parameters": {"scale": "2", "connect.decimal.precision": "10"}}  # fmt: skip
DBZ = "io.debezium."
VALUES: list[tuple[dict[str, Any], Any, str, Any]] = [
    ({"type": "boolean"}, True, "BOOLEAN", True),
    ({"type": "int8"}, -128, "TINYINT", -128),
    ({"type": "int64"}, 9223372036854775807, "BIGINT", 9223372036854775807),
    ({"type": "float"}, 1.5, "FLOAT", 1.5),
    ({"type": "double"}, 0.1, "DOUBLE", 0.1),
    ({"type": "string"}, 'a "b"\n\\ ü 😀', "STRING", 'a "b"\n\\ ü 😀'),
    ({"type": "bytes"}, base(b"\x00\xff"), "BYTES", b"\x00\xff"),
    (DECIMAL, base((12345).to_bytes(2, "big")), "DECIMAL(10, 2)", Decimal("123.45")),
    (DECIMAL, base((-1).to_bytes(1, "big", signed=True)), "DECIMAL(10, 2)", Decimal("-0.01")),
    (DECIMAL, 123.45, "DECIMAL(10, 2)", Decimal("123.45")),
    ({**DECIMAL, "parameters": {"scale": "0"}}, base((2**64 - 1).to_bytes(9, "big")),
     "DECIMAL(20, 0)", Decimal(2**64 - 1)),
    ({**DECIMAL, "parameters": {"scale": "3", "connect.decimal.precision": "50"}},
     base((10**45 + 7).to_bytes(20, "big")), "STRING",
     "1000000000000000000000000000000000000000000.007"),
    ({"type": "struct", "name": f"{DBZ}data.VariableScaleDecimal", "fields": []},
     {"scale": 3, "value": base((-1500).to_bytes(2, "big", signed=True))}, "STRING", "-1.500"),
    ({"type": "int32", "name": f"{DBZ}time.Date"}, -1, "DATE", date(1969, 12, 31)),
    ({"type": "int32", "name": f"{CONNECT}Date"}, 19439, "DATE", date(2023, 3, 23)),
    ({"type": "string", "name": f"{DBZ}time.IsoDate"}, "2023-03-23Z", "DATE", date(2023, 3, 23)),
    ({"type": "int32", "name": f"{DBZ}time.Time"}, 1001, "TIME(3)", time(0, 0, 1, 1000)),
    ({"type": "int64", "name": f"{DBZ}time.MicroTime"}, 1001000, "TIME(3)", time(0, 0, 1, 1000)),
    ({"type": "int64", "name": f"{DBZ}time.NanoTime"}, 10**9, "TIME(3)", time(0, 0, 1)),
    ({"type": "string", "name": f"{DBZ}time.IsoTime"}, "10:00:01.5Z", "TIME(3)",
     time(10, 0, 1, 500000)),
    ({"type": "int64", "name": f"{DBZ}time.Timestamp"}, -1, "TIMESTAMP(3)",
     datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ({"type": "int64", "name": f"{CONNECT}Timestamp"}, 1000, "TIMESTAMP(3)",
     datetime(1970, 1, 1, 0, 0, 1)),
    ({"type": "int64", "name": f"{DBZ}time.MicroTimestamp"}, 1, "TIMESTAMP(6)",
     datetime(1970, 1, 1, 0, 0, 0, 1)),
    ({"type": "string", "name": f"{DBZ}time.IsoTimestamp"}, "2023-03-23T01:02:03.000004Z",
     "TIMESTAMP(6)", datetime(2023, 3, 23, 1, 2, 3, 4)),
    ({"type": "string", "name": f"{DBZ}time.ZonedTimestamp"}, "2023-03-23T01:02:03.5+02:00",
     "TIMESTAMP(6) WITH LOCAL TIME ZONE", datetime(2023, 3, 22, 23, 2, 3, 500000, UTC)),
    ({"type": "bytes", "name": f"{DBZ}data.Bits", "parameters": {"length": "12"}},
     base(b"\x34\x02"), "BINARY(2)", b"\x02\x34"),
    ({"type": "string", "name": f"{DBZ}data.Uuid"}, "2f1e", "STRING", "2f1e"),
    ({"type": "string", "name": f"{DBZ}data.Json"}, '{"a": null}', "STRING", '{"a": null}'),
    ({"type": "string", "name": f"{DBZ}data.Enum"}, "a", "STRING", "a"),
    ({"type": "int32", "name": f"{DBZ}time.Year"}, 2023, "INT", 2023),
    ({"type": "array", "items": {"type": "int32"}}, [1, None, 3], "ARRAY<INT>", [1, None, 3]),
    ({"type": "array", "items": {"type": "array", "items": DECIMAL}}, [[base(b"\x01")], []],
     "ARRAY<ARRAY<DECIMAL(10, 2)>>", [[Decimal("0.01")], []]),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
     {"k": "v", "n": None}, "MAP<STRING NOT NULL, STRING>", [("k", "v"), ("n", None)]),
    ({"type": "struct", "fields": [{"type": "int32", "field": "x"},
                                   {"type": "string", "field": "y"}]},
     {"y": "z", "x": 1}, "ROW<x INT, y STRING>", {"x": 1, "y": "z"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "kind", "expected"),
    VALUES,
    ids=[f"{v[2]}-{n}" for n, v in enumerate(VALUES)],
)
def test_values_are_decoded_by_their_schema(
    schema: Any, value: Any, kind: str, expected: Any
) -> None:
    shape = envelope({**schema, "field": "v", "optional": True})
    rows = [record("c", None, {"v": each}, schema=shape) for each in (value, None, value)]
    batch = only(*rows)
    assert str(batch.fields[0].type) == kind
    assert batch.rows["v"].to_pylist() == [expected, None, expected]
    assert batch.missing == {}


@pytest.mark.parametrize(("unit", "micros"), [("Time", 1000), ("MicroTime", 1), ("NanoTime", None)])
def test_times_above_24_hours_are_numbers_or_texts(unit: str, micros: Any) -> None:
    drawn = random.Random(3).choices(range(-3_020_399_000, 3_020_399_000), k=40)  # noqa: S311
    for millis in [-1, 0, 86_400_000, 3_020_399_000, -3_020_399_000, *drawn]:
        number = millis * 10**6 if micros is None else millis * 1000 // micros
        shape = envelope({"type": "int64", "name": f"{DBZ}time.{unit}", "field": "v"})
        row = record("c", None, {"v": number}, schema=shape)
        if not 0 <= millis < 86_400_000:
            with pytest.raises(FormatError, match="declare the column as STRING or BIGINT"):
                only(row)
        clock = abs(millis) // 1000
        hours, minutes, seconds = clock // 3600, clock // 60 % 60, clock % 60
        fraction = f"{abs(millis) % 1000:03}".rstrip("0") or "0"
        text = f"{'-' * (millis < 0)}{hours:02}:{minutes:02}:{seconds:02}.{fraction}"
        for kind, expected in (("STRING", text), ("BIGINT", number)):
            known = SourceTable(columns={"v": parse_type(kind)})
            batch = only(
                row, options=CdcOptions(table_of=cast("Any", lambda _, known=known: known))
            )
            assert batch.rows["v"].to_pylist() == [expected]


DECLARED: list[tuple[str, CdcOptions, Any, Any]] = [
    ("BIGINT", CdcOptions(), 2**53 + 1, 2**53 + 1),
    ("DECIMAL(38, 20)", CdcOptions(), "123456789012345678.12345678901234567890",
     Decimal("123456789012345678.12345678901234567890")),
    ("BYTES", CdcOptions(binary=BinaryMode.HEX), "00Ff", b"\x00\xff"),
    ("BYTES", CdcOptions(binary=BinaryMode.BASE64_URL_SAFE), "-_8=", b"\xfb\xff"),
    ("TIMESTAMP(3)", CdcOptions(), 1, datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("TIMESTAMP(6)", CdcOptions(), 1, datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("TIMESTAMP(6)", CdcOptions(time=TimeMode.CONNECT), 1, datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("TIMESTAMP(6)", CdcOptions(time=TimeMode.NANOSECONDS), 1000,
     datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("TIMESTAMP(6)", CdcOptions(), "2023-03-23 01:02:03", datetime(2023, 3, 23, 1, 2, 3)),
    ("TIME(3)", CdcOptions(), 1000000, time(0, 0, 1)),
    ("TIME(3)", CdcOptions(time=TimeMode.ADAPTIVE), 1000, time(0, 0, 1)),
    ("DATE", CdcOptions(), 1, date(1970, 1, 2)),
    ("ARRAY<INT>", CdcOptions(), [1, 2], [1, 2]),
    ("MAP<STRING, INT>", CdcOptions(), {"a": 1}, [("a", 1)]),
    ("MAP<INT, INT>", CdcOptions(), {"1": 1}, [(1, 1)]),
    ("ROW<a INT>", CdcOptions(), {"a": 1}, {"a": 1}),
    ("BIGINT", CdcOptions(), "-9223372036854775808", -(2**63)),
    ("INT", CdcOptions(), 5.0, 5),
    ("DECIMAL(5, 1)", CdcOptions(), "1.500", Decimal("1.5")),
    ("DOUBLE", CdcOptions(), "-Infinity", float("-inf")),
    ("ARRAY<STRING>", CdcOptions(), "x,y", ["x", "y"]),  # a SET of MySQL
    ("ARRAY<STRING>", CdcOptions(), "", []),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "value", "expected"), DECLARED)
def test_values_are_decoded_as_declared(
    kind: str, options: CdcOptions, value: Any, expected: Any
) -> None:
    declared = SourceTable(columns={"v": parse_type(kind)})
    options = replace(options, table_of=lambda _: declared)
    batch = only(record("c", None, {"v": value}), options=options)
    assert batch.rows["v"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("BIGINT", "9223372036854775808"), ("INT", "1.5"), ("INT", '"1.5"'), ("TINYINT", "128"),
     ("DECIMAL(5, 2)", "1.005"), ("DECIMAL(5, 2)", '"1.005"'), ("DECIMAL(5, 2)", "1e-3"),
     ("DECIMAL(38, 0)", "1e38"), ("FLOAT", "1e39"), ("FLOAT", '"1e39"'), ("DOUBLE", "NaN"),
     ("DOUBLE", "-Infinity"), ("DOUBLE", "1e400"), ("ARRAY<INT>", "[1.5]"),
     ("ARRAY<STRING>", '"{a,b}"'), ("MAP<INT, INT>", '{"x": 1}')],
)  # fmt: skip
def test_value_changed_by_its_type_is_refused(kind: str, text: str) -> None:
    """NaN and the infinities are in quotes, as Jackson writes them: JSON has none."""
    known = SourceTable(columns={"v": parse_type(kind)})
    line = json.dumps(record("c", None, {"v": "?"})).replace('"?"', text)
    with pytest.raises(FormatError, match="'f', line 1: "):
        read(line, options=CdcOptions(table_of=lambda _: known))


def test_last_member_of_name_counts() -> None:
    known = SourceTable(columns={"m": parse_type("MAP<STRING, INT>")})
    line = json.dumps(record("c", None, {"k": 1, "m": {"a": 1, "b": 2}}))
    line = line.replace('"k": 1', '"k": 1, "k": 2').replace('"b": 2', '"b": 2, "a": 3')
    [batch] = read(line, options=CdcOptions(table_of=lambda _: known))
    assert batch.rows.to_pylist() == [{"k": "2", "m": [("a", 3), ("b", 2)]}]


def test_numbers_beyond_double_stay_exact_as_texts() -> None:
    text = '{"op":"c","after":{"v":12345678901234567890123.4567890123456789,"w":1.10}}'
    assert only(text).rows.to_pylist() == [
        {"v": "12345678901234567890123.4567890123456789", "w": "1.10"}
    ]


TOAST: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, UNKNOWN),
    ({"type": "bytes"}, base(UNKNOWN.encode())),
    ({"type": "array", "items": {"type": "string"}}, [UNKNOWN]),
    ({"type": "array", "items": {"type": "int32"}}, list(UNKNOWN.encode())),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, {UNKNOWN: UNKNOWN}),
    ({"type": "string", "name": f"{DBZ}data.Json"}, UNKNOWN),
    ({"type": "array", "items": {"type": "double"}}, list(map(float, UNKNOWN.encode()))),
    ({"type": "struct", "name": f"{DBZ}data.VariableScaleDecimal"},
     {"scale": 0, "value": base(UNKNOWN.encode())}),
    ({"type": "struct", "name": f"{DBZ}data.geometry.Point"},
     {"x": 0, "wkb": base(UNKNOWN.encode()), "srid": None}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), TOAST)
def test_unchanged_toast_value_is_missing(schema: Any, value: Any) -> None:
    key = {"type": "int32", "field": "k"}
    shape = envelope(key, {**schema, "field": "v", "optional": True})
    rows = [record("u", None, {"k": n, "v": each}, schema=shape)
            for n, each in enumerate((value, None))]  # fmt: skip
    assert [row for _, row in rows_of(only(*rows))] == [{"k": 0}, {"k": 1, "v": None}]


def test_placeholder_of_missing_values_is_option() -> None:
    batch = only(
        record("u", None, {"k": "1", "v": "?"}),
        record("u", None, {"k": "2", "v": UNKNOWN}),
        options=CdcOptions(unavailable="?"),
    )
    assert [row for _, row in rows_of(batch)] == [{"k": "1"}, {"k": "2", "v": UNKNOWN}]


def test_absent_members_are_missing_or_null_by_option() -> None:
    rows = record("c", None, {"k": "1", "v": None}), record("u", None, {"k": "1"})
    assert [row for _, row in rows_of(only(*rows))] == [{"k": "1", "v": None}, {"k": "1"}]
    batch = only(*rows, options=CdcOptions(absent=AbsentValue.NULL))
    assert batch.missing == {}


def test_updates_are_upserts_or_deletes_and_inserts() -> None:
    options = CdcOptions(table_of=lambda _: SourceTable(keys=("k",)))
    batch = only(
        record("r", None, {"k": 1, "v": 1}),
        record("u", None, {"k": 1, "v": 2}),
        record("u", {"k": 1, "v": 2}, {"k": 1, "v": 3}),
        record("u", {"k": 1, "v": 3}, {"k": 2, "v": 3}),
        record("d", {"k": 2, "v": 3}, None),
        options=options,
    )
    assert batch.kinds.tolist() == [0, 2, 1, 2, 3, 0, 3]
    assert batch.rows["k"].to_pylist() == ["1", "1", "1", "1", "1", "2", "2"]
    assert batch.origin["line"].to_pylist() == [1, 2, 3, 3, 4, 4, 5]


def test_keys_of_messages_are_key_columns_and_fill_rows() -> None:
    messages = [
        {"key": {"k": 1}, "value": record("c", None, {"v": "a"}), "topic": "x", "offset": 3},
        {"key": {"k": 2}, "value": record("d"), "topic": "x", "offset": 4},
        {"key": {"k": 2}, "value": None, "topic": "x", "offset": 5},
        {"key": {"schema": {"type": "struct"}, "payload": {"k": 3}},
         "value": record("c", None, {"v": "c"}), "topic": "x", "offset": 6},
    ]  # fmt: skip
    batches = read(*messages[:3], "")
    assert [batch.keys for batch in batches] == [("k",)]
    assert batches[0].kinds.tolist() == [0, 3]
    assert [row for _, row in rows_of(batches[0])] == [{"k": "1", "v": "a"}, {"k": "2"}]
    assert batches[0].metadata.to_pylist() == [
        {"topic": "x", "offset": "3"}, {"topic": "x", "offset": "4"},
    ]  # fmt: skip
    assert [row for _, row in rows_of(read(messages[3])[0])] == [{"k": "3", "v": "c"}]


@pytest.mark.parametrize(
    "key",
    [{"payload": 7}, {"k": 1, "payload": 7}, {"schema": "s", "payload": 7},
     {"schema": 5, "payload": 7}, {"k": 1, "schema": {"type": "s"}, "payload": {"k": 2}}],
)  # fmt: skip
def test_columns_named_schema_and_payload_are_no_envelope(key: dict[str, Any]) -> None:
    [batch] = read({"key": key, "value": record("d"), "topic": "x"}, "")
    assert batch.keys == tuple(key)
    [batch] = read({"key": {"k": 1}, "value": key, "topic": "x"}, "")  # flattened
    assert batch.rows.column_names == [*dict.fromkeys(("k", *key))]


def test_column_named_schema_keeps_its_object() -> None:
    for schema in ({"type": "s"}, {"type": {"x": 1}}, {}, {"x": {"type": "struct"}}):
        line = {"key": {"k": 1}, "value": {"k": 1, "schema": schema, "payload": 7}, "topic": "x"}
        [[_, row]] = rows_of(read(line, "")[0])
        assert json.loads(row["schema"]) == schema


@pytest.mark.parametrize("more", [{}, {"k": 1}])
def test_schema_in_column_is_no_envelope(more: dict[str, Any]) -> None:
    row = {"schema": {"type": "struct", "fields": []}, "payload": {"a": 1}, **more}
    flattened = {**row, "k": 1}
    for line in (record("c", None, row), flattened, {"key": {"k": 1}, "value": flattened}):
        [[_, stored]] = rows_of(read(line, "")[0])
        assert json.loads(stored["schema"]) == row["schema"]


@pytest.mark.parametrize(
    "row",
    [{"key": "theme", "value": "dark"}, {"key": "theme", "value": None},
     {"key": {"a": 1}, "value": {"b": 2}, "__op": "c"}, {"topic": "x", "value": "y"},
     {"op": "c", "before": None, "after": "x", "__deleted": "false"},
     {"op": "x", "after": {"a": 1}, "__op": "c"}, {"ddl": "x", "__op": "c"}],
)  # fmt: skip
def test_flattened_rows_have_columns_of_any_name(row: dict[str, Any]) -> None:
    """Such as a table of settings: columns `key` and `value` make no message."""
    [[kind, stored]] = rows_of(only(row))
    assert kind == 0
    assert [*stored] == [name for name in row if not name.startswith("__")]


def test_keys_with_and_without_envelopes_are_in_one_file() -> None:
    wrapped = {"schema": {"type": "struct"}, "payload": {"k": 3}}
    lines = [{"key": key, "value": record("d"), "topic": "x"} for key in ({"payload": 7}, wrapped)]
    assert [batch.keys for batch in read(*lines, "")] == [("payload",), ("k",)]


def test_flattened_rows_have_kinds_and_positions() -> None:
    added = {"__op": "u", "__db": "shop", "__table": "t", "__source_ts_ms": 5, "__lsn": 9}
    batch = only(
        {"k": 1, "v": "a", "__deleted": "false", **added, "__op": "c"},
        {"k": 1, "v": UNKNOWN, "__deleted": "false", **added},
        {"k": 1, "v": None, "__deleted": "true", **added},
    )
    assert (batch.database, batch.table, batch.kinds.tolist()) == ("shop", "t", [0, 2, 3])
    assert [row for _, row in rows_of(batch)] == [
        {"k": "1", "v": "a"}, {"k": "1"}, {"k": "1", "v": None},
    ]  # fmt: skip
    assert {*batch.origin["position"].to_pylist()} == {f"{8:019}:{9:019}:{0:019}"}
    assert batch.origin["op_time"].cast(pa.int64()).to_pylist() == [5, 5, 5]


def test_tombstone_of_flattened_row_is_its_delete() -> None:
    batch = only({"key": {"k": 1}, "value": {"k": 1, "v": "a"}}, {"key": {"k": 1}, "value": None})
    assert batch.kinds.tolist() == [0, 3]
    assert [row for _, row in rows_of(batch)] == [{"k": "1", "v": "a"}, {"k": "1"}]


def test_tombstone_after_row_that_marks_deletes_is_left_out() -> None:
    rows = [{"k": 1, "__deleted": flag, "__lsn": lsn} for flag, lsn in (("false", 1), ("true", 2))]
    batch = only(*({"key": {"k": 1}, "value": row} for row in [*rows, None]))
    assert batch.kinds.tolist() == [0, 3]
    assert batch.origin["position"].null_count == 0


def test_truncate_keeps_its_order_among_rows() -> None:
    batch = only(record("c", None, {"k": 1}), record("t"), record("c", None, {"k": 2}))
    assert [(event.kind, event.before_row) for event in batch.events] == [(EventKind.TRUNCATE, 1)]


def test_set_is_text_in_ddl() -> None:
    columns = [{"name": "marks", "typeName": "SET", "typeExpression": "SET"}]
    table = {"columns": columns, "primaryKeyColumnNames": []}
    table_changes = [{"type": "CREATE", "table": table}]
    change = {"source": MYSQL, "ddl": "CREATE", "tableChanges": table_changes}
    [batch] = read(change)
    [fields] = [event.fields for event in batch.events]
    assert fields is not None
    assert str(fields[0].type) == "STRING"


def test_schema_changes_have_all_columns() -> None:
    change = {
        "source": MYSQL, "databaseName": "shop", "ddl": "ALTER TABLE t ADD v DECIMAL(5,2)",
        "tableChanges": [{"type": "ALTER", "id": '"shop"."t"', "table": {
            "primaryKeyColumnNames": ["k"],
            "columns": [{"name": "k", "typeName": "INT", "typeExpression": "INT UNSIGNED"},
                        {"name": "v", "typeName": "DECIMAL", "typeExpression": "DECIMAL",
                         "length": 5, "scale": 2}]}}],
    }  # fmt: skip
    batch = only(change)
    (event,) = batch.events
    assert (batch.table, event.kind) == ("t", EventKind.ALTER)
    assert event.fields is not None
    assert [str(field.type) for field in event.fields] == ["BIGINT", "DECIMAL(5, 2)"]


def test_positions_order_log_by_server() -> None:
    def at(k: int, **source: Any) -> dict[str, Any]:
        return record("c", None, {"k": k}, {**MYSQL, **source})

    batch = only(
        at(3, file="bin.000010", pos=4, row=0),
        at(2, file="bin.000002", pos=9, row=1),
        at(1, file="bin.000002", pos=9, row=0),
        at(0, file="bin.000002", pos=4, row=0, server_id=0),  # a snapshot
    )
    assert [row["k"] for row in in_log_order(batch)] == ["0", "1", "2", "3"]
    other = only(at(1, file="bin.000001", pos=4), at(2, file="bin.000001", pos=9, server_id=8))
    assert other.origin["log"].to_pylist() == ["mysql:srv:7:bin", "mysql:srv:8:bin"]
    batch = only(*(record("c", None, {"k": lsn}, {"lsn": lsn}) for lsn in (30, 4, 100)))
    assert [row["k"] for row in in_log_order(batch)] == ["4", "30", "100"]
    batch = only(record("c", None, {"k": 1}))
    assert batch.origin["position"].to_pylist() == [None]


def test_rejected_record_has_its_schema() -> None:
    bad = record("c", None, {"v": "x"}, schema=envelope({"type": "int32", "field": "v"}))
    rejected: list[pa.Table] = []
    read(json.dumps(bad), options=CdcOptions(on_rejected=rejected.append))
    assert json.loads(rejected[0]["record"][0].as_py()) == bad


def test_file_of_bad_lines_is_rejected_by_line() -> None:
    rejected: list[pa.Table] = []
    assert read("{x", "null", "y}", options=CdcOptions(on_rejected=rejected.append)) == []
    assert [line for part in rejected for line in part["line"].to_pylist()] == [1, 3]
    with pytest.raises(FormatError, match="array"):
        read('[{}, {"a" 1}]', options=CdcOptions(on_rejected=rejected.append))


def test_changed_schema_begins_new_batch() -> None:
    old, new = (envelope({"type": kind, "field": "v"}) for kind in ("int32", "int64"))
    batches = read(
        record("c", None, {"v": 1}, schema=old),
        record("c", None, {"v": 2}, schema=new),
        record("c", None, {"v": 3}, schema=new),
        "",
    )
    assert [[str(batch.fields[0].type), len(batch)] for batch in batches] == [
        ["INT", 1], ["BIGINT", 2],
    ]  # fmt: skip


def test_source_types_are_mapped() -> None:
    def column(name: str, kind: str, source: str, length: str) -> dict[str, Any]:
        parameters = {"__debezium.source.column.type": source,
                      "__debezium.source.column.length": length}  # fmt: skip
        return {"type": kind, "field": name, "parameters": parameters}

    shape = envelope(column("a", "int16", "TINYINT", "1"), column("b", "string", "VARCHAR", "20"))
    row = record("c", None, {"a": 1, "b": "x"}, schema=shape)
    modes = frozenset({TypeMapping.TINYINT1_NOT_BOOL, TypeMapping.CHAR_TO_STRING})
    plain, mapped = only(row), only(row, options=CdcOptions(type_mapping=modes))
    assert [str(field.type) for field in plain.fields] == ["BOOLEAN", "VARCHAR(20)"]
    assert [str(field.type) for field in mapped.fields] == ["TINYINT", "STRING"]
    assert plain.rows.to_pylist() == [{"a": True, "b": "x"}]


REFUSED: list[tuple[Any, str]] = [
    ('{"op": "c", "after": {"k": 1}', "it is no JSON"),
    ("7", "no JSON object"),
    ('{"op":"c","after":{"v":.5}}', "no JSON"),
    (record("x", None, {"k": 1}), "'op' is unknown"),
    (record("c"), "no row in 'after'"),
    (record("d"), "neither 'before' nor a key"),
    (record("c", None, {"v": "x"}, schema=envelope({"type": "int32", "field": "v"})), "column 'v'"),
    (record("c", None, {"v": 2**31}, schema=envelope({"type": "int32", "field": "v"})), "'v'"),
    (record("c", None, {"v": 10**9}, schema=envelope({**DECIMAL, "field": "v"})), "column 'v'"),
    (record("c", None, {"v": "*"}, schema=envelope({"type": "bytes", "field": "v"})), "column 'v'"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED)
def test_unreadable_record_names_file_and_line_or_is_rejected(bad: Any, reason: str) -> None:
    good = record("c", None, {"k": 1})
    with pytest.raises(FormatError, match=reason) as caught:
        read(good, bad, good)
    assert caught.value.kind == "cdc-record"
    assert caught.value.details == {"file": "f", "line": 2}
    rejected: list[pa.Table] = []
    batches = read(good, bad, good, options=CdcOptions(on_rejected=rejected.append))
    lines = [line for batch in batches for line in batch.origin["line"].to_pylist()]
    assert sorted(lines) == [1, 3]
    assert [(row["file"], row["line"]) for part in rejected for row in part.to_pylist()] == [
        ("f", 2)
    ]


def test_column_of_unknown_type_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'v'") as caught:
        read(record("c", None, {"v": 1}, schema=envelope({"type": "int128", "field": "v"})))
    assert caught.value.kind == "cdc-type"


def test_envelope_tombstones_are_skipped() -> None:
    row, envelope = {"id": 1}, {"type": "struct", "fields": []}
    delete = {"payload": {"op": "d", "before": row, "after": None}, "schema": envelope}
    lines = [{"key": row, "value": value} for value in (None, delete, None)]
    [batch] = changes(map(json.dumps, lines), "debezium-json")
    assert batch.kinds.tolist() == [3]


def test_connector_records_are_not_rows() -> None:
    begins = {"status": "BEGIN", "id": "5:1", "event_count": None, "data_collections": None}
    ends = {"status": "END", "id": "5:1", "event_count": 1,
            "data_collections": [{"data_collection": "d.t", "event_count": 1}]}  # fmt: skip
    row = {"op": "c", "before": None, "after": {"k": "1"}, "source": {"db": "d", "table": "t"}}
    flat = {"k": "1", "__op": "c", "__table": "t", "__db": "d"}
    for change in (row, flat):
        records = [{"ts_ms": 5}, begins, change, {"ts_ms": 6}, {**ends, "ts_ms": 7}]
        (batch,) = changes([json.dumps(each) for each in records], "debezium-json")
        assert batch.rows.to_pylist() == [{"k": "1"}]


def test_flattened_truncate_is_event() -> None:
    of_table = {"__table": "t", "__db": "d"}
    records = [{"k": "1", "__op": "c", **of_table}, {"__op": "t", **of_table}]
    (batch,) = changes([json.dumps(each) for each in records], "debezium-json")
    assert batch.rows.to_pylist() == [{"k": "1"}]
    assert [(each.kind.value, each.before_row) for each in batch.events] == [("truncate", 1)]


@pytest.mark.parametrize(
    ("scale", "value", "text"), [(-2, "AQI=", "25800"), (-2, "AA==", "0"), (-1, "/w==", "-10")]
)
def test_decimals_of_negative_scale_end_with_zeros(scale: int, value: str, text: str) -> None:
    plain = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
             "parameters": {"scale": str(scale)}}  # fmt: skip
    record = {"op": "c", "before": None, "after": {"v": value}, "source": {"table": "t"}}
    line = with_fields(json.dumps(record), v=plain)
    (batch,) = changes([line], "debezium-json")
    assert batch.rows.to_pylist() == [{"v": text}]


@pytest.mark.parametrize("sides", [("before", "after"), ("after", "before")])
def test_row_before_update_is_read_where_its_key_differs(sides: tuple[str, str]) -> None:
    pairs = [({"k": 1, "v": "a"}, {"k": 1, "v": "b"}), ({"k": 1, "v": "b"}, {"k": 2, "v": "c"}),
             ({"k": 2, "v": "c"}, None), (None, {"k": 3, "v": "d"})]  # fmt: skip
    records = [
        {**{side: dict(zip(("before", "after"), pair, strict=True))[side] for side in sides},
         "source": PG, "op": op}
        for pair, op in zip(pairs, "uudc", strict=True)
    ]  # fmt: skip
    options = CdcOptions(table_of=lambda _: SourceTable(keys=("k",)), keys=("k",))
    found = [*rows_of(only(*records, options=options))]
    after = [(2, pairs[0][1]), (3, pairs[1][0]), (0, pairs[1][1]), (3, pairs[2][0]),
             (0, pairs[3][1])]  # fmt: skip
    expected = [(kind, {"k": str(row["k"]), "v": row["v"]}) for kind, row in after if row]
    assert [each for each in found if each[0] != 1] == expected
    assert [kind for kind, _ in found].count(1) == (sides == ("after", "before"))


@pytest.mark.parametrize("size", [1, 700, 2000, 1 << 20])
@pytest.mark.parametrize("odd", ["", "extra", "other schema", "no object"])
def test_schemas_are_cut_from_blocks_of_any_size(size: int, odd: str) -> None:
    schema = envelope({"field": "k", "type": "int64"}, {"field": "v", "type": "int32"})
    records = [record("c", None, {"k": k, "v": k}, schema=schema) for k in range(20)]
    lines = [json.dumps(each) for each in records]
    lines[7] = lines[7].replace('{"k": 7, "v": 7}', '{"k": 7, "v": "x"}')
    lines[11] = {
        "": lines[11],
        "extra": lines[11][:-1] + ', "x": {}}',
        "other schema": lines[11].replace("int32", "int16"),
        "no object": lines[11][:-1] + "]",
    }[odd]
    rejected: list[pa.Table] = []
    batches = read(*lines, options=CdcOptions(block_bytes=size, on_rejected=rejected.append))
    gone = [7, 11] if odd == "no object" else [7]
    letters = pa.concat_tables(rejected).sort_by("line").to_pylist()
    assert [(each["line"] - 1, each["record"]) for each in letters] == [
        (row, lines[row]) for row in gone
    ]
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    if odd == "extra":  # then it is no envelope, but a row of other columns
        rows = [row for row in rows if "k" in row and row["k"] is not None]
        gone.append(11)
    assert rows == [{"k": k, "v": k} for k in range(20) if k not in gone]
    places = [line for batch in batches for line in batch.origin["line"].to_pylist()]
    assert sorted(places) == [
        k + 1 for k in range(20) if k not in gone or (k, odd) == (11, "extra")
    ]


@pytest.mark.parametrize("value", ["[" * 200 + "]" * 200, '"\xff"'])
def test_value_that_nests_deep_or_is_no_text_is_refused(value: str) -> None:
    rows = [f'{{"op":"c","before":null,"after":{{"k":1,"v":{v}}}}}' for v in ("[]", value)]
    with pytest.raises(FormatError, match="line 2"):
        changes("\n".join(rows).encode("latin-1"), "debezium-json")
