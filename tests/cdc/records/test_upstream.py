"""Upstream's records give the rows that upstream's tests expect (apache/paimon 5dacde516b).

`docs/decisions/change-records.md` lists the intended differences.
"""

import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import CdcOptions, SourceTable, TypeMapping
from tests.cdc.kit.cdc_replay import Replay, changes, golden_records

SCOOTER = "101, scooter, Small 2-wheel scooter, 3.14"
BATTERY = "102, car battery, 12V car battery, 8.1"
DRILLS = "103, 12-pack drill bits, 12-pack of drill bits with sizes ranging from #40 to #3, 0.8"
HAMMER = "104, hammer, 12oz carpenter's hammer, 0.75"
HAMMER_14 = "105, hammer, 14oz carpenter's hammer, 0.875"
NINE = "1, 9, nine, 90000000000, 99999.999, {}, {}"
NINE_BIN, NINE_LONG = b"nine.bin", b"nine.bin.long"
WORDS = {
    "canal": "canal-json",
    "debezium": "debezium-json",
    "maxwell": "maxwell-json",
    "json": "json",
}


def text_of(value: Any) -> str:
    """Write a value as upstream's tests do."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return str(list(value))
        case datetime():
            zoneless = value.replace(tzinfo=None)
            text = zoneless.isoformat(timespec="auto")
            if zoneless.microsecond:
                return text.rstrip("0") if zoneless.microsecond % 1000 else text[:-3]
            return text.removesuffix(":00")
        case date():
            return str((value - date(1970, 1, 1)).days)
        case time():
            return str(((value.hour * 60 + value.minute) * 60 + value.second) * 1000)
        case list():
            return f"[{', '.join(value)}]"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def texts_of(rows: list[dict[str, Any]], columns: list[str]) -> list[str]:
    return sorted(", ".join(text_of(row.get(name)) for name in columns) for row in rows)


def floats(batches: list[Any]) -> list[Any]:
    """Show FLOAT as the shortest text, as Java does."""
    return [
        replace(batch, rows=pa.table({
            name: column.cast(pa.string()) if column.type == pa.float32() else column
            for name, column in zip(batch.rows.column_names, batch.rows.columns, strict=True)
        }))
        for batch in batches
    ]  # fmt: skip


def _evolution(kind: str) -> list[Any]:
    """Return the stages that Debezium, Maxwell and Canal have in common."""
    return [
        ([SCOOTER, BATTERY]),
        ([f"{SCOOTER}, NULL", f"{BATTERY}, NULL", f"{DRILLS}, 18", f"{HAMMER}, 24"]),
        ([
            f"{BATTERY}, NULL, NULL", f"{DRILLS}, 18, NULL", f"{HAMMER}, 24, NULL",
            f"{HAMMER_14}, NULL, Beijing", "107, rocks, box of assorted rocks, 5.3, NULL, NULL",
        ]),
    ]  # fmt: skip


PRODUCT = ["id", "name", "description", "weight", "age", "address"]
CANAL = ["pt", "_id", "v1", "v2", "v3", "v4", "v5"]
NULLS = ", NULL, NULL, NULL"
CANAL_STAGES = [
    ["1, 1, one", "1, 2, two", "2, 4, four"],
    ["1, 1, one, NULL", "1, 2, second, NULL", "2, 3, three, 30", "2, 4, four, NULL",
     "1, 5, five, 50", "1, 6, six, 60"],
    ["1, 1, one, NULL", "1, 2, second, NULL", "2, 3, three, 30000000000", "2, 4, four, NULL",
     "1, 6, six, 60", "2, 7, seven, 70000000000", "2, 8, eight, 80000000000"],
    [f"1, 1, one, NULL{NULLS}", f"1, 2, second, NULL{NULLS}", f"2, 3, three, 30000000000{NULLS}",
     f"2, 4, four, NULL{NULLS}", f"1, 6, six, 60{NULLS}", f"2, 7, seven, 70000000000{NULLS}",
     f"2, 8, very long string, 80000000000{NULLS}", NINE.format(list(NINE_BIN), "9.9")],
    [f"1, 1, one, NULL{NULLS}", f"1, 2, second, NULL{NULLS}", f"2, 3, three, 30000000000{NULLS}",
     f"2, 4, four, NULL, NULL, {list(b'four.bin.long')}, 4.00000000004", f"1, 6, six, 60{NULLS}",
     f"2, 7, seven, 70000000000{NULLS}", f"2, 8, very long string, 80000000000{NULLS}",
     NINE.format(list(NINE_LONG), "9.00000000009")],
]  # fmt: skip
EVENT = [
    [NINE.format(list(NINE_BIN), "9.9")],
    [f"1, 1, one, NULL{NULLS}", f"1, 2, two, NULL{NULLS}", f"2, 4, four, NULL{NULLS}"],
    [f"1, 2, second, NULL{NULLS}"],
    [],
]
AGED = [
    [SCOOTER],
    [f"{SCOOTER}, NULL", f"{DRILLS}, 18"],
    [f"{SCOOTER}, NULL", f"{DRILLS}, 18", f"{HAMMER}, 24"],
    [f"{SCOOTER}, NULL", f"{DRILLS}, 18", f"{HAMMER}, 24", f"{HAMMER_14}, 24"],
    # Upstream's job fails: BIGINT does not become STRING. The batch has the new type.
    [f"{SCOOTER}, NULL", f"{DRILLS}, 18", f"{HAMMER}, 24", f"{HAMMER_14}, 24"],
]

CASES: dict[str, tuple[str, list[str], list[str], list[list[str]]]] = {
    **{
        f"{kind}-evolution": (f"{kind}/table/schemaevolution/{kind}-data-{{}}.txt",
                              ["id"], PRODUCT, _evolution(kind))
        for kind in ("debezium", "maxwell")
    },
    "canal-evolution": ("canal/table/schemaevolution/canal-data-{}.txt",
                        ["pt", "_id"], CANAL, CANAL_STAGES),
    "canal-evolution-without-ddl": ("canal/table/schemaevolutionmissingddl/canal-data-{}.txt",
                                    ["pt", "_id"], CANAL, CANAL_STAGES),
    "canal-evolution-of-many": (
        "canal/table/schemaevolutionmultiple/canal-data-{}.txt", ["_id"],
        ["_id", "v1", "v2", "v3", "v4", "v5", "v6", "$% ^,& *("],
        [["1, one, 10, string_1"],
         ["1, one, 10, string_1, NULL, NULL, NULL, NULL",
          "2, long_string_two, 2000000000000, string_2, 20, 20.5, 20.002, test_2"]],
    ),
    "debezium-with-schema": ("debezium/table/schema/schemaevolution/debezium-data-{}.txt",
                             ["id"], PRODUCT[:5], AGED[:4]),
    "debezium-schema-once": ("debezium/table/schema/include/debezium-data-1.txt", ["id"],
                             PRODUCT[:4], [[f"{SCOOTER}0000104904175"]]),
    "debezium-null-value": ("debezium/table/nullvalue/debezium-data-{}.txt", ["id"],
                            ["id", "value"], [["1, A"], ["1, A", "2, B"]]),
    "debezium-nested": ("debezium/table/nestedtype/debezium-data-1.txt", ["id"],
                        ["id", "name", "row"], [['101, hammer, {"row_key":"value"}']]),
    "canal-incomplete": ("canal/table/incomplete/canal-data-1.txt", ["k"], ["k", "v"],
                         [["1, Hi", "2, Hello"]]),
    "canal-without-precision": ("canal/table/incomplete/canal-data-2.txt", ["k"], ["k", "v"],
                                [["1, 1.200000000000000000"]]),
    "canal-without-key": ("canal/table/nonpk/canal-data-1.txt", [], ["v0", "v1"],
                          [["five, 50", "five, 50"]]),
    "json-evolution": ("json/table/schemaevolution/json-data-{}.txt", [],
                       ["a", "b", "event_tm", "c"], [
        ["a1, b1, 2024-05-22 09:50:40", "a2, b2, 2024-05-23 10:20:56"],
        ["a1, b1, 2024-05-22 09:50:40, NULL", "a2, b2, 2024-05-23 10:20:56, NULL",
         "a3, b3, 2024-05-22 19:50:40, NULL", "a4, b4, 2024-05-23 15:20:56, c4"]]),
    **{
        f"{kind}-start": (f"{kind}/table/startupmode/{kind}-data-{{}}.txt", ["id"], PRODUCT[:4],
                          [[SCOOTER, BATTERY], [SCOOTER, BATTERY, DRILLS, HAMMER]])
        for kind in ("debezium", "maxwell")
    },
    "canal-start": ("canal/table/startupmode/canal-data-{}.txt", ["pt", "_id"], CANAL[:3],
                    [["1, 1, one", "1, 2, two"],
                     ["1, 1, one", "1, 2, two", "1, 3, three", "1, 4, four"]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_table_cases_give_rows_upstream_expects(case: str) -> None:
    pattern, keys, columns, stages = CASES[case]
    kind = WORDS[pattern.partition("/")[0]]
    table = Replay(keys, merges=True)  # as upstream merges shards
    for number, expected in enumerate(stages, start=1):
        table.apply(floats(changes(golden_records()[pattern.format(number)], kind)))
        width = len(re.sub(r"\[.*?\]", "", expected[0]).split(", "))
        assert texts_of(table.rows(), columns[:width]) == sorted(expected)


TWO = [("t1", ["k", "v1", "v2"]), ("t2", ["k1", "k2", "v1", "v2", "v3"])]
SHOP = [("t1", [*PRODUCT[:4], "age"]), ("t2", [*PRODUCT[:4], "address"])]
DATABASES: dict[str, tuple[str, list[str], list[tuple[str, list[str]]], list[list[list[str]]]]] = {
    "canal-evolution": ("canal/database/schemaevolution/topic{}/canal-data-{}.txt", [], TWO, [
        [["1, one", "3, three"], ["2, two, 20, 200", "4, four, 40, 400"]],
        [["1, one, NULL", "3, three, NULL", "5, five, 50", "7, seven, 70"],
         ["2, two, 20, 200, NULL", "4, four, 40, 400, NULL", "6, six, 60, 600, string_6",
          "8, eight, 80, 800, string_8"]],
        [["1, one, NULL", "3, three, NULL", "5, five, 50", "7, seven, 70",
          "9, nine, 9000000000000"],
         ["2, two, 20, 200, NULL", "4, four, 40, 400, NULL", "6, six, 60, 600, string_6",
          "8, eight, 80, 800, string_8", "10, ten, 100, 1000, long_long_string_10"]],
    ]),
    "canal-affixes": ("canal/database/prefixsuffix/topic{}/canal-data-{}.txt", [],
                      [("t1", ["k1", "v0", "v1"]), ("t2", ["k2", "v0", "v1"])], [
        [["1, one", "3, three"], ["2, two", "4, four"]],
        [["1, one, NULL", "3, three, NULL", "5, five, 50", "7, seven, 70"],
         ["2, two, NULL", "4, four, NULL", "6, six, s_6", "8, eight, s_8"]],
        [["1, one, NULL", "3, three, NULL", "5, five, 50", "7, seven, 70",
          "9, nine, 9000000000000"],
         ["2, two, NULL", "4, four, NULL", "6, six, s_6", "8, eight, s_8", "10, ten, long_s_10"]],
    ]),
    **{
        f"{kind}-evolution": (f"{kind}/database/schemaevolution/topic{{}}/{kind}-data-{{}}.txt",
                              ["id"], SHOP, [
            [[SCOOTER, BATTERY], [DRILLS, HAMMER]],
            [[f"{SCOOTER}, NULL", f"{BATTERY}, NULL", f"{DRILLS}, 19", f"{HAMMER}, 25"],
             [f"{DRILLS}, Beijing", f"{HAMMER}, Shanghai"]],
        ]) for kind in ("debezium", "maxwell")
    },
    **{
        f"{kind}-affixes": (f"{kind}/database/prefixsuffix/topic{{}}/{kind}-data-{{}}.txt",
                            ["id"], [("t1", [*PRODUCT[:4], "address"]),
                                     ("t2", [*PRODUCT[:4], "age"])], [
            [[SCOOTER, BATTERY], [DRILLS, HAMMER]],
            [[f"{SCOOTER}, Beijing", f"{BATTERY}, Shanghai"], [f"{DRILLS}, 19", f"{HAMMER}, 25"]],
        ]) for kind in ("debezium", "maxwell")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", DATABASES)
def test_database_cases_give_rows_upstream_expects(case: str) -> None:
    pattern, keys, tables, stages = DATABASES[case]
    kind = WORDS[pattern.partition("/")[0]]
    replay = Replay(keys or None)
    for number, expected in enumerate(stages, start=1):
        for topic in range(3):
            records = golden_records().get(pattern.format(topic, number))
            if records:
                replay.apply(changes(records, kind))
        for (table, columns), rows in zip(tables, expected, strict=True):
            width = len(rows[0].split(", "))
            assert texts_of(replay.rows(table), columns[:width]) == sorted(rows)


def test_events_insert_update_and_delete() -> None:
    table = Replay(["pt", "_id"], merges=True)
    stages = []
    for event in ("row", "insert", "update", "delete"):
        records = golden_records()[f"canal/table/event/event-{event}.txt"]
        table.apply(floats(changes(records, "canal-json")))
        stages.append(texts_of(table.rows(), CANAL))
    nine, two = EVENT[0][0], f"1, 2, {{}}, NULL{NULLS}"
    one, four = EVENT[1][0], EVENT[1][2]
    assert stages == [
        [nine],
        sorted([one, two.format("two"), nine, four]),
        sorted([one, two.format("second"), nine, four]),
        sorted([two.format("second"), nine, four]),
    ]


@pytest.mark.parametrize("kind", ["canal", "debezium", "maxwell"])
def test_tables_are_left_out_before_their_rows_are_decoded(kind: str) -> None:
    records = golden_records()[f"{kind}/database/include/topic0/{kind}-data-1.txt"]
    options = CdcOptions(
        table_of=lambda name: SourceTable() if str(name[2]).startswith("paimon") else None
    )
    batches = changes(records, WORDS[kind], options)
    assert [batch.table for batch in batches] == ["paimon_1", "paimon_2"]


@pytest.mark.parametrize("file", ["table", "database"])
def test_to_string_makes_all_columns_texts(file: str) -> None:
    options = CdcOptions(type_mapping=frozenset({TypeMapping.TO_STRING}))
    records = golden_records()[f"canal/{file}/tostring/canal-data-1.txt"]
    batches = changes(records, "canal-json", options)
    assert {str(field.type) for batch in batches for field in batch.fields} == {"STRING"}
    rows = Replay().apply(batches).rows("t1")
    assert texts_of(rows, ["k1", "v0", "v1"]) == ["5, five, 50", "7, seven, 70"]


@pytest.mark.parametrize("file", sorted(golden_records()))
def test_all_of_upstreams_records_are_read(file: str) -> None:
    records = golden_records()[file]
    rejected: list[pa.Table] = []
    options = CdcOptions(on_rejected=rejected.append)
    batches = changes(records, WORDS[file.partition("/")[0]], options, file)
    lines = {line for batch in batches for line in batch.origin["line"].to_pylist()}
    lines |= {event.origin["line"] for batch in batches for event in batch.events}
    assert rejected == []
    assert lines == set(range(1, len(records) + 1))


TYPES = {
    "canal": "canal/table/alltype/canal-data.txt",
    "debezium": "debezium/table/schema/alltype/debezium-data-1.txt",
}
NUMBERS = (
    "1000, 2000, 3000, 100000, 200000, 300000, 1000000, 2000000, 3000000, 10000000000, "
    "20000000000, 30000000000, 40000000000, 1.5, 2.5, 3.5, 1.000001, 2.000002, 3.000003, 1.000011, "
    "2.000022, 3.000033, 1.000111, 2.000222, 3.000333, 12345.110, 12345.220, 12345.330, "
)
TEXTS = "Paimon, Apache Paimon, " + ", ".join(
    f"Apache Paimon MySQL {word}Test Data" for word in ("TINYTEXT ", "", "MEDIUMTEXT ", "Long ")
)
BLOBS = ", ".join(
    str(list(f"{word} test data".encode()))
    for word in ("TINYBLOB type", "BLOB type", "MEDIUMBLOB type", "LONGBLOB  bytes")
)
LONG = "123456789876543212345678987654321"
EXPECTED_TYPES = {
    "canal": (
        f"1, 1.1, true, true, false, 1, 2, 3, {NUMBERS}{LONG}.110, {LONG}.220, {LONG}.330, "
        "11111, 22222, 33333, 19439, 2023-03-23T14:30:05, 2023-03-23T14:30:05.123, "
        "2023-03-23T14:30:05.123456, 2023-03-24T14:30, 2023-03-24T14:30:05.120, "
        f"2023-03-23T15:00:10.123456, 2023-03-23T00:10, {TEXTS}, {list(b'bytes')}, "
        f'{list(b"more bytes")}, {BLOBS}, {{"a": "b"}}, value1, 2023, 36803000, [a, b]'
    ),
    "debezium": (
        f"1, 1.1, true, {[0, 0, 0, 0, 0, 0, 7, 0xC7]}, 1, 1, 0, 1, 2, 3, {NUMBERS}"
        f"{LONG}.110, {LONG}.220, {LONG}.330, "  # upstream loses the scale
        "11111, 22222, 33333, 2222222222222222300000001111.1234567890, 19439, "
        "2023-03-23T14:30:05, 2023-03-23T14:30:05.123, 2023-03-23T14:30:05.123456, "
        "2023-03-24T14:30, 2023-03-24T14:30:05.120, 2023-03-23T22:00:10.123456, 2023-03-23T07:10, "
        f"{TEXTS}, {list(b'bytes' + bytes(5))}, {list(b'more bytes')}, {BLOBS}, "
        '{"a": "b"}, value1, 2023, 36803000, a,b'
    ),
}
SHAPES = ("_point", "_geometry", "_linestring", "_polygon", "_multi", "_geometrycollection")


@pytest.mark.parametrize("kind", TYPES)
def test_all_types_of_mysql_are_read(kind: str) -> None:
    batches = changes(golden_records()[TYPES[kind]], WORDS[kind])
    columns = [name for name in batches[0].rows.column_names if not name.startswith(SHAPES)]
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert ", ".join(text_of(rows[0][name]) for name in columns) == EXPECTED_TYPES[kind]
    for row in rows[1:]:
        filled = {name: value for name, value in row.items() if value is not None}
        assert filled == {"_id": 2, "pt": Decimal("2.2"), "_serial": Decimal(50000000000)}


def test_decimal_of_another_width_is_refused() -> None:
    files = [f"canal/table/typenochange/canal-data-{number}.txt" for number in (3, 4)]
    first, second = (changes(golden_records()[file], "canal-json")[0] for file in files)
    assert [str(batch.fields[1].type) for batch in (first, second)] == [
        "DECIMAL(10, 2)", "DECIMAL(15, 4)",
    ]  # fmt: skip
    rows = Replay().apply([first, second]).rows("decimal_no_change")
    assert texts_of(rows, ["k", "v"]) == ["1, 1.20", "2, 2.3000"]
