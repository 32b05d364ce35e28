"""Tables that every implementation must read alike: declared once, written in several commits."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.type_text import Json
from tests.testkit.model import Row

Columns = Mapping[str, str | dict[str, Json]]
"""Column name → type text, or the JSON object of a nested type."""

ODD_TEXTS = ("plain", "a b", "x=y", "50%", "a/b", "ä-日本", 'q"uote', "c:d", "#[]{}")
"""Partition values whose directory names need escaping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCase:
    name: str
    columns: Columns
    commits: tuple[tuple[Row, ...], ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    not_created_by: frozenset[str] = frozenset()
    """Peers whose language for creating tables lacks a type; they still write and read it."""

    @property
    def schema(self) -> Schema:
        return Schema.of(
            self.columns,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
        )

    def __str__(self) -> str:
        return self.name


ALL_TYPES = {
    "f_boolean": "BOOLEAN",
    "f_tinyint": "TINYINT",
    "f_smallint": "SMALLINT",
    "f_int": "INT",
    "f_bigint": "BIGINT",
    "f_float": "FLOAT",
    "f_double": "DOUBLE",
    "f_decimal5": "DECIMAL(5, 2)",
    "f_decimal18": "DECIMAL(18, 9)",
    "f_decimal38": "DECIMAL(38, 10)",
    "f_string": "STRING",
    "f_bytes": "BYTES",
    "f_date": "DATE",
    "f_time": "TIME(3)",
    "f_ts0": "TIMESTAMP(0)",
    "f_ts3": "TIMESTAMP(3)",
    "f_ts6": "TIMESTAMP(6)",
    "f_ltz3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "f_ltz6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
NESTED_TYPES: dict[str, str | dict[str, Json]] = {
    "f_array": {"type": "ARRAY", "element": "INT"},
    "f_map": {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
    "f_row": {
        "type": "ROW",
        "fields": [
            {"id": 101, "name": "x", "type": "INT"},
            {"id": 102, "name": "y", "type": "STRING"},
        ],
    },
}

_SECOND = 1_000_000_000


def _all_types_row(number: int) -> dict[str, Any]:
    """Return a row of ordinary values; every third has nulls in half of its columns."""
    seconds = (number - 2) * 100_000_007
    row: dict[str, Any] = {
        "f_boolean": number % 2 == 0,
        "f_tinyint": number - 100,
        "f_smallint": -number * 300,
        "f_int": number * 20_000_003,
        "f_bigint": number * 10**15 - 7,
        "f_float": number * 0.5,
        "f_double": number / 3,
        "f_decimal5": Decimal(number * 37).scaleb(-2),
        "f_decimal18": Decimal(-number * 123_456_789_012).scaleb(-9),
        "f_decimal38": Decimal(number * 10**25 + 1).scaleb(-10),
        "f_string": f"{ODD_TEXTS[number % len(ODD_TEXTS)]} {number}",
        "f_bytes": bytes([number, 0, 255]),
        "f_date": dt.date(1969, 12, 28) + dt.timedelta(days=number * 37),
        "f_time": dt.time(number % 24, 59, 1, number * 1000),
        "f_ts0": seconds * _SECOND,
        "f_ts3": seconds * _SECOND + 123_000_000,
        "f_ts6": seconds * _SECOND + 123_456_000,
        "f_ltz3": seconds * _SECOND + 7_000_000,
        "f_ltz6": seconds * _SECOND + 7_001_000,
        "f_array": [number, None, 3],
        "f_map": [("a", number), ("b", -number)],
        "f_row": {"x": number, "y": f"y{number}"},
    }
    if number % 3 == 0:
        row.update(dict.fromkeys(list(row)[number % 2 :: 2]))
    return row


def _typed_rows(numbers: range, columns: Columns) -> tuple[Row, ...]:
    rows = []
    for number in numbers:
        values = {"id": number, **_all_types_row(number)}
        rows.append({name: values[name] for name in columns})
    return tuple(rows)


def _keyed_rows(numbers: range, text: str, **constant: Any) -> tuple[Row, ...]:
    return tuple({"id": number, "text": f"{text}{number}", **constant} for number in numbers)


_ID_ALL: Columns = {"id": "INT NOT NULL", **ALL_TYPES}
_NESTED: Columns = {"id": "INT NOT NULL", **NESTED_TYPES}
_ID_TEXT = {"id": "BIGINT NOT NULL", "text": "STRING"}
_CHANGES = {"id": "BIGINT NOT NULL", "op_time": "INT", "kind": "STRING", "text": "STRING"}


def _change(number: int, kind: str, op_time: int | None, text: str) -> Row:
    return {"id": number, "op_time": op_time, "kind": kind, "text": text}


def _at(number: int, kind: str, micros: int, text: str) -> Row:
    """A change at an instant, given in microseconds of one millisecond."""
    instant = dt.datetime(2024, 2, 29, 12, 0, 0, 123_000 + micros)
    return {**_change(number, kind, None, text), "op_time": instant}


def _decimal(number: int, kind: str, op_time: int, text: str) -> Row:
    return {**_change(number, kind, None, text), "op_time": Decimal(op_time)}


CASES: tuple[TableCase, ...] = (
    TableCase(
        name="append",
        columns=_ID_TEXT,
        commits=(_keyed_rows(range(50), "a"), _keyed_rows(range(25, 75), "b")),
        options={"bucket": "-1"},
    ),
    TableCase(
        name="append_all_types",
        columns=_ID_ALL,
        commits=(_typed_rows(range(12), _ID_ALL), _typed_rows(range(12, 20), _ID_ALL)),
        options={"bucket": "-1"},
        not_created_by=frozenset({"pypaimon-rust"}),
    ),
    TableCase(
        name="append_nested",
        columns=_NESTED,
        commits=(_typed_rows(range(12), _NESTED),),
        options={"bucket": "-1"},
        not_created_by=frozenset({"pypaimon-rust"}),
    ),
    TableCase(
        name="append_nanoseconds",
        columns={"id": "INT", "ts": "TIMESTAMP(9)", "ms": "TIMESTAMP(3)", "s": "TIMESTAMP(0)"},
        commits=(
            tuple(
                {
                    "id": n,
                    "ts": (n - 3) * _SECOND + n,
                    "ms": (n - 3) * _SECOND + 7_000_000,
                    "s": (n - 3) * _SECOND,
                }
                for n in range(8)
            ),
        ),
        options={"bucket": "-1"},
    ),
    TableCase(
        name="append_odd_partitions",
        columns={"id": "BIGINT", "part": "STRING"},
        commits=(tuple({"id": n, "part": text} for n, text in enumerate([*ODD_TEXTS, None])),) * 2,
        partition_keys=("part",),
        options={"bucket": "-1"},
    ),
    TableCase(
        name="append_date_int_partitions",
        columns={"id": "BIGINT", "day": "DATE", "hour": "INT"},
        commits=(
            tuple(
                {"id": n, "day": dt.date(2024, 1, 1 + n % 3), "hour": n % 2 - 1} for n in range(20)
            ),
        )
        * 2,
        partition_keys=("day", "hour"),
        options={"bucket": "-1"},
    ),
    TableCase(
        name="key",
        columns=_ID_TEXT,
        commits=(
            _keyed_rows(range(100), "a"),
            _keyed_rows(range(50, 150), "b"),
            (*_keyed_rows(range(5), "c"), *_keyed_rows(range(5), "d")),
        ),
        primary_keys=("id",),
        options={"bucket": "3"},
    ),
    TableCase(
        name="key_partitioned",
        columns={
            "day": "DATE NOT NULL",
            "id": "INT NOT NULL",
            "name": "STRING NOT NULL",
            "v": "DOUBLE",
        },
        commits=tuple(
            tuple(
                {"day": dt.date(2024, 2, 1 + n % 2), "id": n, "name": ODD_TEXTS[n % 9], "v": n + c}
                for n in range(c * 10, 30 + c * 5)
            )
            for c in range(3)
        ),
        primary_keys=("day", "name", "id"),
        partition_keys=("day",),
        options={"bucket": "2"},
    ),
    TableCase(
        name="key_all_types",
        columns=_ID_ALL,
        commits=(_typed_rows(range(12), _ID_ALL), _typed_rows(range(6, 20), _ID_ALL)),
        primary_keys=("id",),
        options={"bucket": "2"},
        not_created_by=frozenset({"pypaimon-rust"}),
    ),
    TableCase(
        name="key_deletes",
        columns=_CHANGES,
        commits=(
            tuple(_change(n, "+I", n, "a") for n in range(20)),
            tuple(_change(n, "-D", n, "a") for n in range(0, 20, 2)),
            tuple(_change(n, "+U", n, "b") for n in range(0, 20, 4)),
        ),
        primary_keys=("id",),
        options={"bucket": "2", "rowkind.field": "kind"},
    ),
    TableCase(
        name="key_sequence_field",
        columns=_CHANGES,
        commits=(
            tuple(_change(n, "+I", 10, "a") for n in range(9)),
            tuple(_change(n, "+I", 6 + n, "b") for n in range(9)),
            tuple(_change(n, "+I", None, "null loses") for n in range(3)),
        ),
        primary_keys=("id",),
        options={"bucket": "2", "sequence.field": "op_time"},
    ),
)

_PADDED = {
    "bucket": "1",
    "rowkind.field": "kind",
    "sequence.field": "op_time",
    "sequence.auto-padding": "row-kind-flag",
}
PADDED_CASES: tuple[TableCase, ...] = (
    TableCase(
        name="padded_row_kind",  # M1, M3, M4
        columns=_CHANGES,
        commits=(
            (_change(1, "+U", 10, "new"), _change(2, "-U", 10, "old"), _change(3, "+U", 10, "a")),
            (_change(1, "-U", 10, "old"), _change(2, "+U", 10, "new"), _change(3, "-D", 11, "a")),
        ),
        primary_keys=("id",),
        options=_PADDED,
    ),
    TableCase(
        name="padded_micros",  # the column is finer than the number
        columns={**_CHANGES, "op_time": "TIMESTAMP(6)"},
        commits=(
            (_at(1, "+U", 5, "new"), _at(2, "+U", 6, "late"), _at(3, "-U", 5, "a")),
            (_at(1, "-U", 5, "old"), _at(2, "+U", 5, "early"), _at(3, "+U", 5, "b")),
            (_at(4, "-U", 6, "gone"), _at(5, "+U", 5, "a"), _at(5, "+U", 5, "b")),
            (_at(4, "+U", 5, "old"),),
        ),
        primary_keys=("id",),
        options=_PADDED,
    ),
    TableCase(
        name="padded_decimal",
        columns={**_CHANGES, "op_time": "DECIMAL(18, 0)"},
        commits=(
            (_decimal(1, "+U", 10, "new"), _decimal(2, "+U", 10, "a")),
            (_decimal(1, "-U", 10, "old"), _decimal(2, "+U", 9, "b")),
        ),
        primary_keys=("id",),
        options=_PADDED,
    ),
    TableCase(
        name="padded_second",  # M5, M6
        columns=_CHANGES,
        commits=(
            (_change(2, "+I", 105, "a"), _change(1, "+I", 100, "a1"), _change(1, "+I", 100, "a2")),
            (_change(3, "+I", 107, "c"), _change(1, "+I", 100, "a3"), _change(2, "+I", 99, "b")),
        ),
        primary_keys=("id",),
        options={
            "bucket": "1",
            "sequence.field": "op_time",
            "sequence.auto-padding": "second-to-micro",
        },
    ),
)
"""Padding in layout D: only we write these, everybody reads them."""
