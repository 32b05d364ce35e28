"""Messages of change logs that name a way out: each way out works."""

import datetime as dt
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec.structs import replace

from paimon_assets import InvalidInputError, Schema, UnsupportedFeatureError
from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import CdcOptions, ChangeLog, KafkaSource, build_change_log_asset
from paimon_assets.cdc.kafka.topics import Client, library
from paimon_assets.cdc.records.change_batch import TypeMapping
from paimon_assets.cdc.records.formats import cdc_format
from tests.cdc.kit.change_logs import GONE, HOUR, debezium, land, with_fields
from tests.testkit.asset_tables import failure_text, run

ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)


AFTER_A_DAY = {"type": "insert", "database": "shop", "table": "orders", "ts": 5, "xid": 9,
               "data": {"id": 1, "state": "838:59:59"}}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Way:
    """A run that is refused, and the choice that it succeeds with."""

    records: tuple[str, ...]
    message: str
    after: dict[str, Any]
    """Of the asset."""
    before: dict[str, Any]
    runs: tuple[dict[str, Any], ...] = ({},)
    refused: dict[str, Any] | None = None
    """Config of the run that is refused."""
    rows: tuple[Any, ...] = ((1, "b"),)
    kind: str = "debezium-json"


FIRST = debezium("c", 10, id=1, state="a")
NEXT = debezium("u", 20, id=1, state="b")
DROPPED = json.dumps({
    "source": {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders"},
    "ddl": "DROP TABLE orders", "tableChanges": [{"type": "DROP"}],
})  # fmt: skip


def typed_row(lsn: int, op: str = "c", **columns: tuple[Any, Any]) -> str:
    """Return a record whose schema has all columns: type and value of each."""
    values = {name: value for name, (_, value) in columns.items()}
    fields = {name: {"type": kind} if isinstance(kind, str) else kind
              for name, (kind, _) in columns.items()}  # fmt: skip
    return with_fields(debezium(op, lsn, id=1, **values), id={"type": "int64"}, **fields)


def with_source(record: str, **source: Any) -> str:
    parsed = json.loads(record)
    for name, value in source.items():
        parsed["source"][name] = value
        if value is None:
            del parsed["source"][name]
    return json.dumps(parsed)


def with_default(lsn: int, more: Any) -> str:
    columns = {"id": {"type": "int64"}, "state": {"type": "string"}, "more": more}
    return with_fields(debezium("u", lsn, id=1, state="b", more=7), **columns)


def canal(kind: str) -> str:
    return json.dumps({
        "type": "INSERT", "database": "shop", "table": "orders",
        "data": [{"id": "1", "state": "b"}], "mysqlType": {"id": "bigint", "state": kind},
        "pkNames": ["id"], "isDdl": False, "ts": 5, "id": 5,
    })  # fmt: skip


def column_of(kind: str) -> Schema:
    return Schema.of({"id": "BIGINT", "state": kind}, primary_keys=["id"], options={"bucket": "1"})


MICROS = {"type": "int64", "name": "io.debezium.time.MicroTime"}
ISO = {"type": "string", "name": "io.debezium.time.IsoTimestamp"}
MANY_DIGITS = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
               "parameters": {"scale": "99"}}  # fmt: skip
FLAG = {"type": "int16", "parameters": {"__debezium.source.column.type": "TINYINT",
                                        "__debezium.source.column.length": "1"}}  # fmt: skip
NUMBERS = CdcOptions(type_mapping=frozenset({TypeMapping.TINYINT1_NOT_BOOL}))
A, B = ("string", "a"), ("string", "b")
STATE = {"schema_policy": "sync"}
TEXTS = CdcOptions(type_mapping=frozenset({TypeMapping.TO_STRING}))
ALL_TEXTS = Schema.of({"id": "STRING"}, primary_keys=["id"], options={"bucket": "1"})
WAYS = {
    "positions of some records": Way(
        records=(FIRST, with_source(NEXT, lsn=None)),
        message="in runs of their own (max_files), with new_log=true",
        before={},
        after={},
        runs=({"max_files": 1}, {"max_files": 1, "new_log": True}),
    ),
    "a log that went back": Way(
        records=(FIRST, with_source(debezium("u", 5, id=1, state="b"), ts_ms=HOUR + 999_999)),
        message="run with new_log=true",
        before={},
        after={},
        runs=({"new_log": True},),
    ),
    "a change that only comes late": Way(
        records=(NEXT, with_source(debezium("u", 5, id=1, state="a"), ts_ms=HOUR + 999_999)),
        message="load the table again with reload=true",
        before={},
        after={},
        runs=({"reload": True},),
    ),
    "a default": Way(
        records=(typed_row(10, state=A), with_default(20, {"type": "int32", "default": 7})),
        message="ChangeLog(on_default='null')",
        before={"schema_policy": "add"},
        after={"schema_policy": "add", "log": ChangeLog(on_default="null")},
    ),
    "a column that is gone": Way(
        records=(typed_row(10, state=A, old=A), typed_row(20, "u", state=B)),
        message="Follow it (schema_policy='sync')",
        before={"schema_policy": "add"},
        after=STATE,
    ),
    "a column that is gone, left out": Way(
        records=(typed_row(10, state=A, old=A), typed_row(20, "u", state=B)),
        message="or leave the column out (omitted)",
        before={"schema_policy": "add"},
        after={"schema_policy": "add", "log": ChangeLog(omitted=["old"])},
    ),
    "perhaps a new name": Way(
        records=(typed_row(10, old=A), typed_row(20, "u", state=B)),
        message="ChangeLog(renamed={'old': 'state'})",
        before=STATE,
        after={**STATE, "log": ChangeLog(renamed={"old": "state"})},
    ),
    "no new name": Way(
        records=(typed_row(10, old=A), typed_row(20, "u", state=B)),
        message="else renamed={'old': ''}",
        before=STATE,
        after={**STATE, "log": ChangeLog(renamed={"old": ""})},
    ),
    "a type that does not go into the table's": Way(
        records=(typed_row(10, state=("double", 0.1)),),
        message="Make a table that declares it as DOUBLE.",
        before={"schema": column_of("FLOAT")},
        after={"schema": column_of("DOUBLE")},
        rows=((1, 0.1),),
    ),
    "bytes where a text is declared": Way(
        records=(typed_row(10, state=("bytes", "/w==")),),
        message="declares it as BYTES",
        before={},
        after={"schema": Schema.of({"id": "BIGINT", "state": "BYTES"}, primary_keys=["id"])},
        rows=((1, b"\xff"),),
    ),
    "a type of MySQL": Way(
        records=(canal("inet6"),),
        message="TypeMapping.TO_STRING",
        before={},
        after={"schema": ALL_TEXTS, "schema_policy": "add", "log": ChangeLog(records=TEXTS)},
        rows=(("1", "b"),),
        kind="canal-json",
    ),
    "a type of Connect": Way(
        records=(typed_row(10, state=("int128", "b")),),
        message="TypeMapping.TO_STRING",
        before={},
        after={"schema": ALL_TEXTS, "schema_policy": "add", "log": ChangeLog(records=TEXTS)},
        rows=(("1", "b"),),
    ),
    "a value that did not arrive": Way(
        records=(debezium("u", 10, id=1, state=GONE), NEXT),
        message="or let the source send whole rows",
        before={},
        after={},
        refused={"max_files": 1},
    ),
    "a row that cannot be known": Way(
        records=(debezium("u", 10, id=2, state=GONE), FIRST, NEXT),
        message="set_aside=true",
        before={},
        after={"log": ChangeLog(dead_letters="shop.letters")},
        runs=({"set_aside": True},),
    ),
    "set_aside without a table": Way(
        records=(FIRST, NEXT),
        message="set_aside needs a table: ChangeLog(dead_letters=",
        before={},
        after={"log": ChangeLog(dead_letters="shop.letters")},
        refused={"set_aside": True},
        runs=({"set_aside": True},),
    ),
    "an emptied source": Way(
        records=(FIRST, debezium("t", 15), debezium("c", 20, id=1, state="b")),
        message="ChangeLog(on_truncate='empty')",
        before={},
        after={"log": ChangeLog(on_truncate="empty")},
    ),
    "several tables": Way(
        records=(FIRST, debezium("c", 15, "others", id=7, state="x"), NEXT),
        message="ChangeLog(source_table=",
        before={},
        after={"log": ChangeLog(source_table="public.orders")},
    ),
    "a dropped source": Way(
        records=(FIRST, DROPPED, NEXT),
        message="on_drop='ignore'",
        before={},
        after={"log": ChangeLog(on_drop="ignore")},
    ),
    "a column of the log's own": Way(
        records=(debezium("c", 10, id=1, state="b", _op="x"),),
        message="Leave it out (omitted)",
        before={},
        after={"log": ChangeLog(omitted=["_op"])},
    ),
    "a key of another name": Way(
        records=(debezium("c", 10, ID=1, state="b"),),
        message="ChangeLog(renamed=",
        before={},
        after={"log": ChangeLog(renamed={"ID": "id"})},
    ),
    "several logs": Way(
        records=(FIRST, debezium("u", 5, name="pg2", id=1, state="b")),
        message="Ingest the files of one log before those of the next",
        before={},
        after={},
        runs=({"max_files": 1}, {"max_files": 1, "new_log": True}),
    ),
    "postponed buckets": Way(
        records=(FIRST, NEXT),
        message="Set 'bucket' to a number",
        before={"schema": replace(ORDERS, options={"bucket": "-2"})},
        after={"schema": ORDERS},
    ),
    "a time with microseconds": Way(
        records=(typed_row(10, state=(MICROS, 1_001_999)),),
        message="declare the column as STRING or BIGINT",
        before={"schema": column_of("TIME(3)")},
        after={"schema": ORDERS},
        rows=((1, "00:00:01.001999"),),
    ),
    "a time with microseconds, as a number": Way(
        records=(typed_row(10, state=(MICROS, 1_001_999)),),
        message="declare the column as STRING or BIGINT",
        before={"schema": column_of("TIME(3)")},
        after={"schema": column_of("BIGINT")},
        rows=((1, 1_001_999),),
    ),
    "a timestamp with seven digits": Way(
        records=(typed_row(10, state=(ISO, "2020-01-01T00:00:00.1234567Z")),),
        message="declare the column as TIMESTAMP(9)",
        before={"schema": column_of("TIMESTAMP(6)")},
        after={"schema": column_of("TIMESTAMP(9)")},
        rows=((1, pd.Timestamp("2020-01-01T00:00:00.1234567")),),
    ),
    "a real without the digits": Way(
        records=(debezium("c", 10, id=1, state=2**53 + 1),),
        message="declare the column as STRING",
        before={"schema": column_of("DOUBLE")},
        after={"schema": ORDERS},
        rows=((1, "9007199254740993"),),
    ),
    "a decimal of many digits": Way(
        records=(typed_row(5, state=(MANY_DIGITS, "AAAA" * 44)), NEXT),
        message="let the connector write decimals as texts (decimal.handling.mode=string)",
        before={},
        after={"log": ChangeLog(dead_letters="shop.letters")},
    ),
    "a flag that is a number": Way(
        records=(typed_row(10, state=(FLAG, 2)),),
        message="TypeMapping.TINYINT1_NOT_BOOL",
        before={"schema": column_of("BOOLEAN")},
        after={"schema": column_of("TINYINT"), "log": ChangeLog(records=NUMBERS)},
        rows=((1, 2),),
    ),
    "a record that cannot be read": Way(
        records=(FIRST, '{"op": }', NEXT),
        message="ChangeLog(dead_letters='db.table')",
        before={},
        after={"log": ChangeLog(dead_letters="shop.letters")},
    ),
    "a time beyond a day": Way(
        records=(json.dumps(AFTER_A_DAY),),
        message="declare the column as STRING",
        before={"schema": Schema.of({"id": "BIGINT", "state": "TIME(3)"}, primary_keys=["id"])},
        after={"schema": ORDERS},
        rows=((1, "838:59:59"),),
        kind="maxwell-json",
    ),
    **{
        f"{text} in a decimal, {kind}": Way(
            records=(debezium("c", 10, id=1, state=text),),
            message="declare the column as DOUBLE or STRING",
            before={"schema": column_of("DECIMAL(10, 2)")},
            after={"schema": column_of(kind)},
            rows=((1, text if kind == "STRING" else float(text)),),
        )
        for kind, text in (("STRING", "NaN"), ("DOUBLE", "Infinity"), ("DOUBLE", "-Infinity"))
    },
}


@pytest.mark.parametrize("name", WAYS)
def test_way_out_in_message_continues_log(
    name: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    way = WAYS[name]
    for number, record in enumerate(way.records):
        land(tmp_path, f"{number}", record)

    def run_with(choices: dict[str, Any], **config: Any) -> Any:
        source = FileSource(folder=str(tmp_path), format=way.kind)  # type: ignore[arg-type]
        chosen = {"schema": ORDERS, **choices}
        asset = build_change_log_asset("shop.orders", chosen.pop("schema"), source=source, **chosen)
        return run(asset, paimon, run_config={"ops": {"shop__orders": {"config": config}}})

    failed = run_with(way.before, **(way.refused or {}))
    assert not failed.success
    assert way.message in failure_text(failed)
    table = paimon.catalog().get_table("shop.orders")
    assert table.latest_snapshot() is None
    if "schema" in way.after:
        paimon.catalog().drop_table("shop.orders")
    for config in way.runs:
        result = run_with(way.after, **config)
        assert result.success, failure_text(result)
    rows = paimon.catalog().get_table("shop.orders").to_arrow(["id", "state"]).to_pylist()
    assert tuple(tuple(row.values()) for row in rows) == way.rows


@pytest.mark.parametrize(
    ("message", "before", "after"),
    [
        ("leave soft_deletes and on_truncate out",
         {"history": True, "soft_deletes": "gone"}, {"history": True}),
        ("expected one of refuse, keep", {"on_narrowed": "text"}, {"on_narrowed": "keep"}),
        ("computes no column", {"computed": {"d": "day_of(a)"}}, {"computed": {"d": "day(a)"}}),
        ("its arguments are wrong",
         {"computed": {"d": "truncate(a, x)"}}, {"computed": {"d": "truncate(a, 3)"}}),
    ],
)  # fmt: skip
def test_choices_in_messages_are_accepted(
    message: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ChangeLog(**before)
    ChangeLog(**after)


REGISTRY = {"schema.registry.url": "http://registry"}


@pytest.mark.parametrize(
    ("message", "before", "after"),
    [
        ("has a topic or a pattern", {"pattern": "shop.*"}, {}),
        ("options have 'schema.registry.url'", {"format": "debezium-avro", "options": {}}, {}),
        ("and only then", {"format": "json", "options": REGISTRY}, {"format": "json"}),
        ("expected error, add, ignore", {"extra_columns": "keep"}, {"extra_columns": "add"}),
        ("expected one of offset, record", {"order": "time"}, {"order": "record"}),
        ("give earliest, latest", {"start": "first"}, {"start": "earliest"}),
        ("say which, such as tzinfo=dt.UTC",
         {"start": dt.datetime(2026, 1, 1)}, {"start": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}),
        ("are ChangeLog(dead_letters=", {"format": "canal-json", "dead_letters": "d.l"},
         {"format": "canal-json"}),
        ("expected one of ", {"metadata": {"a": "length"}}, {"metadata": {"a": "offset"}}),
    ],
)  # fmt: skip
def test_choices_of_topics_in_messages_are_accepted(
    message: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    def source(**choices: Any) -> KafkaSource:
        options = REGISTRY if choices.get("format") == "debezium-avro" else {}
        return KafkaSource(**{"topic": "t", "bootstrap": "k:9092", "options": options, **choices})

    with pytest.raises(InvalidInputError, match=re.escape(message)) as caught:
        source(**before)
    assert caught.value.kind == "kafka-source"
    source(**after)


@pytest.mark.parametrize(
    ("message", "log", "before", "after"),
    [
        ("declare no primary_keys", {"history": True}, {"keys": ["id"]}, {}),
        ("needs primary_keys, or history=True", {}, {}, {"keys": ["id"]}),
        ("is decided by the log; leave it out", {},
         {"keys": ["id"], "options": {"sequence.field": "state"}}, {"keys": ["id"]}),
        ("do not declare it", {}, {"keys": ["id"], "more": {"_op": "STRING"}}, {"keys": ["id"]}),
        ("; leave it out", {},
         {"keys": ["id"], "options": {"merge-engine": "partial-update"}}, {"keys": ["id"]}),
    ],
)  # fmt: skip
def test_schemas_in_messages_are_accepted(
    message: str, log: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    def schema(keys: Sequence[str] = (), more: Any = None, options: Any = None) -> Schema:
        columns = {"id": "BIGINT", "state": "STRING", **(more or {})}
        return Schema.of(columns, primary_keys=keys, options=options or {})

    with pytest.raises(InvalidInputError, match=message):
        ChangeLog(**log).table_schema(schema(**before))
    ChangeLog(**log).table_schema(schema(**after))


def _client(**settings: str) -> Client:
    return Client({"bootstrap.servers": "k:9092", **settings})


@pytest.mark.way_out("cdc-format", "kafka-setting", "missing-package")
def test_formats_and_clients_in_messages_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"write .*debezium-json") as unread:
        cdc_format("debezium-bson")
    assert unread.value.kind == "cdc-format"
    cdc_format("debezium-json")
    admin = library("confluent_kafka.admin").AdminClient
    with pytest.raises(InvalidInputError, match="Correct KafkaSource") as caught:
        _client(nonsense="1").open(admin, {})
    assert caught.value.kind == "kafka-setting"
    _client().open(admin, {})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "confluent_kafka", None)
        with pytest.raises(InvalidInputError, match="pip install") as caught:
            library()
    assert caught.value.kind == "missing-package"
    library()
