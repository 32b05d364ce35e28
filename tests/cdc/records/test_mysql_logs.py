"""Canal's and Maxwell's records: rows before and after, types, DDL, positions, refusals."""

import itertools
import json
import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from paimon_assets.cdc.records.change_batch import CdcOptions, EventKind, SourceTable, TypeMapping
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.cdc.records.mysql import mysql_type
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.cdc.kit.cdc_replay import changes, in_log_order, rows_of


def canal(kind: str, data: Any, old: Any = None, types: Any = None, **more: Any) -> str:
    return json.dumps({
        "database": "d", "table": "t", "type": kind, "data": data, "old": old, "mysqlType": types,
        "pkNames": ["k"], "isDdl": False, "id": 1, "ts": 1, "es": 1000, **more,
    })  # fmt: skip


def maxwell(kind: str, data: Any = None, **more: Any) -> str:
    return json.dumps({"database": "d", "table": "t", "type": kind, "ts": 5, "xid": 9,
                       "data": data, **more})  # fmt: skip


TYPES = [
    ("int", "INT"), ("INT(11) unsigned", "BIGINT"), ("mediumint unsigned", "BIGINT"),
    ("tinyint(1)", "BOOLEAN"), ("tinyint(4)", "TINYINT"),
    ("tinyint(3) unsigned zerofill", "SMALLINT"),
    ("bigint unsigned", "DECIMAL(20, 0)"), ("decimal(10,2)", "DECIMAL(10, 2)"),
    ("decimal(10, 2) unsigned", "DECIMAL(10, 2)"), ("decimal", "DECIMAL(38, 18)"),
    ("numeric(65,30)", "STRING"), ("enum('a','b,c')", "STRING"), ("set('a','b')", "ARRAY<STRING>"),
    ("datetime", "TIMESTAMP(0)"), ("datetime(6)", "TIMESTAMP(6)"), ("bit(1)", "BOOLEAN"),
    ("bit(9)", "BINARY(2)"), ("char(3)", "CHAR(3)"), ("varchar(255)", "VARCHAR(255)"),
    ("double precision(10,7) unsigned", "DOUBLE"), ("longtext", "STRING"), ("binary(16)",
    "VARBINARY(16)"), ("geometry", "STRING"), ("year(4)", "INT"), ("time(3)", "TIME(3)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_types_of_mysql_have_type_of_paimon(text: str, expected: str) -> None:
    assert str(mysql_type(text, CdcOptions())) == expected


MAPPED = [
    (TypeMapping.TINYINT1_NOT_BOOL, "tinyint(1)", "TINYINT"),
    (TypeMapping.TO_STRING, "int", "STRING"),
    (TypeMapping.CHAR_TO_STRING, "varchar(10)", "STRING"),
    (TypeMapping.LONGTEXT_TO_BYTES, "longtext", "BYTES"),
    (TypeMapping.BIGINT_UNSIGNED_TO_BIGINT, "bigint unsigned", "BIGINT"),
    (TypeMapping.TO_NULLABLE, "int", "INT"),
]


@pytest.mark.parametrize(("mode", "text", "expected"), MAPPED)
def test_types_are_mapped_by_option(mode: TypeMapping, text: str, expected: str) -> None:
    assert str(mysql_type(text, CdcOptions(type_mapping=frozenset({mode})))) == expected


def test_unknown_type_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'vector"):
        changes(canal("INSERT", [{"k": "1"}], types={"k": "vector(3)"}), "canal-json")


CANAL_VALUES: list[tuple[str, str, Any]] = [
    ("enum('a','it''s','1')", "2", "it's"),
    ("enum('a','b')", "b", "b"),
    ("enum('a')", "0", ""),
    ("set('a','b','c')", "5", ["a", "c"]),
    ("set('a','b','c')", "a,b", ["a", "b"]),
    ("set('a')", "0", []),
    ("bit(9)", "257", b"\x01\x01"),
    ("bit(1)", "1", True),
    ("blob", "a\u0000\u00ff\u0080z", b"a\x00\xff\x80z"),
    ("bigint unsigned", "18446744073709551615", 18446744073709551615),
]


@pytest.mark.parametrize(("kind", "text", "expected"), CANAL_VALUES)
def test_values_of_canal_are_decoded(kind: str, text: str, expected: Any) -> None:
    (batch,) = changes(
        canal("INSERT", [{"v": text}, {"v": None}, {"v": text}], types={"v": kind}), "canal-json"
    )
    assert batch.rows["v"].to_pylist() == [expected, None, expected]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("enum('a')", "2"), ("set('a')", "2"), ("bit(9)", "65536"), ("blob", "\u0100"), ("int", "x"),
     ("decimal(3,1)", "100.0"), ("decimal(3,1)", "1.05"),
     ("datetime", "0000-00-00 00:00:00"), ("tinyint(4)", "200")],
)  # fmt: skip
def test_values_that_type_does_not_hold_are_refused(kind: str, text: str) -> None:
    with pytest.raises(FormatError, match="line 2: column 'v'"):
        changes([canal("INSERT", [{"v": None}], types={"v": kind}),
                 canal("INSERT", [{"v": text}], types={"v": kind})], "canal-json")  # fmt: skip


def test_row_before_update_has_old_values() -> None:
    update = canal(
        "UPDATE",
        [{"k": "1", "v": "a", "w": "x"}, {"k": "5", "v": "b", "w": None}],
        [{"v": "old"}, {"k": "4", "w": "w"}],
    )
    (batch,) = changes([canal("INSERT", [{"k": "1", "v": "old", "w": "x"}]), update, ""],
                       "canal-json")  # fmt: skip
    assert batch.keys == ("k",)
    assert list(rows_of(batch)) == [
        (0, {"k": "1", "v": "old", "w": "x"}),
        (1, {"k": "1", "v": "old", "w": "x"}),
        (2, {"k": "1", "v": "a", "w": "x"}),
        (3, {"k": "4", "v": "b", "w": "w"}),  # the key changed
        (0, {"k": "5", "v": "b", "w": None}),
    ]
    update = maxwell("update", {"k": 5, "v": "b"}, old={"k": 4}, primary_key_columns=["k"])
    (batch,) = changes(update, "maxwell-json")
    assert list(rows_of(batch)) == [(3, {"k": "4", "v": "b"}), (0, {"k": "5", "v": "b"})]


def test_column_only_in_old_row_is_null() -> None:
    row = {"k": 1, "v": [1], "w": "x"}
    drawn = 0
    for names in itertools.chain.from_iterable(itertools.combinations(row, n) for n in range(3)):
        for stay in (True, False):
            new = {name: value for name, value in row.items() if name not in names or name == "k"}
            old = {name: row[name] for name in names} if stay else {"u": 5}
            record = maxwell("update", new, old=old)
            (batch,) = changes([maxwell("insert", row), record, ""], "maxwell-json")
            (_, _), (_, _), (kind, after) = rows_of(batch)
            assert kind == 2
            for name in {*row} - {"k"}:
                lacks = name in names
                assert batch.missing.get(name, np.zeros(3, bool))[2] == (lacks and not stay)
                expected = {"k": "1", "v": "[1]", "w": "x"}[name]
                assert after.get(name) == (None if lacks else expected)
            drawn += 1
    assert drawn == 14


@pytest.mark.parametrize("old", [None, []])
def test_update_without_old_values_is_upsert(old: Any) -> None:
    (batch,) = changes(canal("UPDATE", [{"k": "1"}], old), "canal-json")
    assert list(rows_of(batch)) == [(2, {"k": "1"})]


def test_partial_images_lack_columns() -> None:
    types = {"k": "int", "v": "varchar(9)", "w": "int"}
    (batch,) = changes(canal("UPDATE", [{"k": "1", "w": None}], [{"w": "3"}], types), "canal-json")
    assert list(rows_of(batch)) == [(1, {"k": 1, "w": 3}), (2, {"k": 1, "w": None})]


def test_ddl_of_canal_is_event() -> None:
    (batch,) = changes([
        canal("QUERY", None, sql="INSERT INTO t VALUES (1)"), canal("INSERT", [{"k": "1"}]),
        canal("ALTER", None, isDdl=True, sql="ALTER TABLE t ADD v INT"),
        canal("TRUNCATE", None, isDdl=True, sql="TRUNCATE t"),
        canal("ERASE", None, isDdl=True), canal("CINDEX", None, isDdl=True),
        canal("INSERT", [{"k": "2"}]), "",
    ], "canal-json")  # fmt: skip
    assert [(event.kind, event.before_row) for event in batch.events] == [
        (EventKind.ALTER, 1), (EventKind.TRUNCATE, 1), (EventKind.DROP, 1), (EventKind.OTHER, 1),
    ]  # fmt: skip
    assert batch.events[0].statement == "ALTER TABLE t ADD v INT"


def test_ddl_and_bootstraps_of_maxwell_are_read() -> None:
    columns: list[dict[str, Any]] = [
        {"name": "k", "type": "int", "signed": False},
        {"name": "v", "type": "datetime", "column-length": 3},
    ]
    batches = changes([
        maxwell("table-alter", **{"def": {"columns": columns, "primary-key": ["k"]}}),
        maxwell("bootstrap-start", {}), maxwell("bootstrap-insert", {"k": 1}),
        maxwell("bootstrap-complete", {}), maxwell("database-create"),
        maxwell("delete", {"k": 1}), "",
    ], "maxwell-json")  # fmt: skip
    (event,) = batches[0].events
    assert event.fields is not None
    assert [str(field.type) for field in event.fields] == ["BIGINT", "TIMESTAMP(3)"]
    assert list(rows_of(batches[0])) == [(0, {"k": "1"}), (3, {"k": "1"})]


def test_time_of_definition_of_maxwell_is_in_milliseconds() -> None:
    (batch,) = changes(maxwell("table-drop", ts=1_767_600_000_000), "maxwell-json")
    assert batch.events[0].origin["op_time"] == datetime(2026, 1, 5, 8, tzinfo=UTC)
    (batch,) = changes(maxwell("table-drop", ts=10**17), "maxwell-json")
    assert batch.events[0].origin["op_time"] is None


def test_positions_order_log() -> None:
    rows = [canal("INSERT", [{"k": str(ts)}], ts=ts, id=9 - ts) for ts in (3, 1, 2)]
    (batch,) = changes([*rows, ""], "canal-json")
    assert [row["k"] for row in in_log_order(batch)] == ["1", "2", "3"]
    places: list[tuple[str, dict[str, Any]]] = [
        ("b.000002:4", {}),
        ("b.000001:9", {"commit": True}),
        ("b.000001:9", {"xoffset": 0}),
        ("b.000001:7", {"commit": True}),
    ]
    records = [maxwell("insert", {"k": place}, position=place, **more) for place, more in places]
    (batch,) = changes([*records, ""], "maxwell-json")
    assert in_log_order(batch) == batch.rows.to_pylist()[::-1]
    records = [maxwell("insert", {"k": xid}, xid=xid) for xid in (10, 9)]
    (batch,) = changes([*records, ""], "maxwell-json")
    assert [row["k"] for row in in_log_order(batch)] == ["9", "10"]
    records = [maxwell("insert", {"k": 1}, server_id=server) for server in (1, 2)]
    (batch,) = changes([*records, ""], "maxwell-json")
    assert batch.origin["log"].to_pylist() == ["maxwell:1:", "maxwell:2:"]


@pytest.mark.parametrize(
    ("kind", "record", "reason"),
    [
        ("canal-json", canal("INSERT", None), "no 'data'"),
        ("canal-json", canal("MERGE", [{"k": "1"}]), "'type' is unknown"),
        ("canal-json", canal("UPDATE", [{"k": "1"}], [{}, {}]), "different numbers of rows"),
        ("canal-json", canal("INSERT", [{"k": "1"}, None]), "a row of its 'data' is no object"),
        ("canal-json", canal("INSERT", [{"k": "1"}], types=["int"]), "its schema cannot be read"),
        ("maxwell-json", maxwell("upsert", {"k": 1}), "'type' is unknown"),
        ("maxwell-json", maxwell("insert"), "no 'data'"),
    ],
)
def test_unreadable_record_names_file_and_line(kind: str, record: str, reason: str) -> None:
    with pytest.raises(FormatError, match=f"'f', line 1: .*{reason}"):
        changes(record, kind)


def test_unsupported_formats_are_refused_by_name() -> None:
    for name in ("ogg-json", "aws-dms-json", "debezium-bson", "aliyun-json"):
        with pytest.raises(UnsupportedFeatureError, match=name):
            cdc_format(name)
    with pytest.raises(InvalidInputError, match="'xml'"):
        cdc_format("xml")


@pytest.mark.parametrize("kind", ["canal-json", "maxwell-json"])
def test_texts_of_times_beyond_day_are_read(kind: str) -> None:
    draw = random.Random(5)  # noqa: S311
    texts = ["838:59:59", "-838:59:59.000000", "24:00:00", "-00:00:01", "23:59:59", "00:00:00.5"]
    for _ in range(40):
        hours, minutes, seconds = draw.randrange(839), draw.randrange(60), draw.randrange(60)
        texts.append(f"{draw.choice(['', '-'])}{hours:02}:{minutes:02}:{seconds:02}")

    def read(text: str, declared: str) -> Any:
        known = SourceTable(columns={"v": parse_type(declared)})
        row = {"k": "1", "v": text}
        made = maxwell("insert", row)
        if kind == "canal-json":
            made = canal("INSERT", [row], types={"v": "time(3)"})
        [batch] = changes([made], kind, CdcOptions(table_of=lambda _: known))
        return batch.rows["v"][0].as_py()

    for text in texts:
        assert read(text, "STRING") == text
        if "-" not in text and int(text.partition(":")[0]) < 24:
            assert read(text, "TIME(3)").isoformat()[:8] == text[:8]
        else:
            with pytest.raises(FormatError, match="declare the column as STRING"):
                read(text, "TIME(3)")
