"""Change records of a table: read by Arrow alone, parsed, and with the run that commits them.

    python -m tools.cdc.bench_changes [--records 50000] [--repeat 2] [--kafka] [--spark]

One table of 14 columns; inserts, updates and deletes as connectors write them. Microseconds of CPU
of this process a record, the best of some runs: on Spark without those of its JVM.
"""

import argparse
import io
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.json as pa_json
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import Schema
from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import KafkaSource, build_change_log_asset
from paimon_assets.cdc.kafka.fetching import fetch
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.cdc.records.change_batch import CdcOptions, SourceTable
from paimon_assets.cdc.records.formats import cdc_format, changes_of
from tests.cdc.kit.kafka_broker import Broker, running_broker

COLUMNS = {
    "id": "BIGINT", "customer": "BIGINT", "state": "STRING", "note": "STRING", "pieces": "INT",
    "price": "DECIMAL(12, 2)", "discount": "DOUBLE", "is_paid": "BOOLEAN", "ordered": "DATE",
    "created": "TIMESTAMP(6)", "changed": "STRING", "country": "STRING", "email": "STRING",
    "carrier": "STRING",
}  # fmt: skip
SCHEMA = Schema.of(COLUMNS, primary_keys=["id"])
_CONNECT = {"BIGINT": "int64", "INT": "int32", "DOUBLE": "double", "BOOLEAN": "boolean"}
_NAMES = {
    "DATE": ("int32", "io.debezium.time.Date"),
    "TIMESTAMP(6)": ("int64", "io.debezium.time.MicroTimestamp"),
}
_OPS = {"c": ("INSERT", "insert"), "u": ("UPDATE", "update"), "d": ("DELETE", "delete")}
_MYSQL = {"STRING": "varchar(99)", "TIMESTAMP(6)": "datetime(6)", "BOOLEAN": "tinyint(1)"}


def _row(chance: random.Random, key: int) -> dict[str, Any]:
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]
    return {
        "id": key, "customer": chance.randrange(10**6), "state": "new",
        "note": " ".join(chance.choices(words, k=6)), "pieces": chance.randrange(100),
        "price": f"{chance.randrange(10**7) / 100:.2f}", "discount": round(chance.random(), 4),
        "is_paid": chance.random() < 0.5, "ordered": 20_000 + chance.randrange(500),
        "created": 1_767_600_000_000_000 + chance.randrange(10**12),
        "changed": "2026-01-05T08:00:00.123456Z", "country": chance.choice(["DE", "FR", "US"]),
        "email": f"user{chance.randrange(10**6)}@example.com",
        "carrier": None if chance.random() < 0.3 else "X1",
    }  # fmt: skip


def changes(count: int) -> Iterator[tuple[int, str, Any, Any]]:
    """Yield numbers, operations, and rows before and after."""
    chance = random.Random(1)
    held: dict[int, Any] = {}
    for number in range(count):
        key = number - chance.randrange(1000)
        old = held.get(key)
        if old is None or chance.random() < 0.4:
            held[number] = _row(chance, number)
            yield number, "c", None, held[number]
        elif chance.random() < 0.1:
            yield number, "d", held.pop(key), None
        else:
            held[key] = old | {"state": "paid", "pieces": chance.randrange(100)}
            yield number, "u", old, held[key]


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _connect_schema() -> str:
    fields = []
    for name, word in COLUMNS.items():
        kind, meaning = _NAMES.get(word, (_CONNECT.get(word, "string"), None))
        fields.append({"type": kind, "optional": name != "id", "field": name})
        fields[-1] |= {"name": meaning, "version": 1} if meaning else {}
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": side}
             for side in ("before", "after")]  # fmt: skip
    op = {"type": "string", "optional": False, "field": "op"}
    return _dumps({"type": "struct", "fields": [*sides, op], "name": "pg.public.orders.Envelope"})


def _debezium(number: int, op: str, old: Any, new: Any) -> str:
    lsn, millis = 24_000_000 + number * 10, 1_767_600_000_000 + number
    source = {
        "version": "3.0.0.Final", "connector": "postgresql", "name": "pg", "ts_ms": millis,
        "snapshot": "false", "db": "shop", "sequence": f'["{lsn}","{lsn + 8}"]',
        "schema": "public", "table": "orders", "txId": number, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    return _dumps({"before": old, "after": new, "source": source, "op": op, "ts_ms": millis})


def _flatten(number: int, op: str, old: Any, new: Any) -> str:
    added = {"__op": op, "__deleted": str(op == "d").lower(), "__lsn": 24_000_000 + number}
    return _dumps((new or old) | added)


def _canal(number: int, op: str, old: Any, new: Any) -> str:
    row = {name: value if value is None else f"{value}" for name, value in (new or old).items()}
    row |= {"is_paid": "1", "ordered": "2026-01-05", "created": "2026-01-05 08:00:00.123456"}
    before = [{"state": "new", "pieces": "1"}] if op == "u" else None
    types = {name: _MYSQL.get(word, word.lower()) for name, word in COLUMNS.items()}
    return _dumps({
        "data": [row], "database": "shop", "es": number, "id": number, "isDdl": False,
        "mysqlType": types, "old": before, "pkNames": ["id"], "sql": "",
        "sqlType": dict.fromkeys(COLUMNS, 12), "table": "orders", "ts": number,
        "type": _OPS[op][0],
    })  # fmt: skip


def _maxwell(number: int, op: str, old: Any, new: Any) -> str:
    record = {
        "database": "shop", "table": "orders", "type": _OPS[op][1], "ts": 1_767_600_000,
        "xid": number, "position": f"binlog.000004:{number}", "server_id": 1,
        "primary_key_columns": ["id"], "data": new or old,
    }  # fmt: skip
    return _dumps(record | ({"old": {"state": "new", "pieces": 1}} if op == "u" else {}))


_ENVELOPE = f'{{"schema":{_connect_schema()},"payload":'
RECORDS: dict[str, tuple[Any, Callable[..., str]]] = {
    "Debezium": ("debezium-json", _debezium),
    "Debezium with schemas": ("debezium-json", lambda *of: f"{_ENVELOPE}{_debezium(*of)}}}"),
    "Debezium, flattened": ("debezium-json", _flatten),
    "Canal": ("canal-json", _canal),
    "Maxwell": ("maxwell-json", _maxwell),
    "rows": ("json", lambda _, __, old, new: _dumps(new or old)),
}


def _best(repeat: int, work: Callable[[], Any]) -> float:
    """Return seconds of CPU."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def _arrow(data: bytes) -> Callable[[], Any]:
    """Read the same bytes with all types given: the fastest library that there is for it."""
    types = pa_json.read_json(io.BytesIO(data)).schema

    def read() -> Any:
        options = pa_json.ParseOptions(explicit_schema=types, unexpected_field_behavior="error")
        whole = pa_json.ReadOptions(use_threads=False, block_size=4 << 20)
        return pa_json.read_json(io.BytesIO(data), read_options=whole, parse_options=options)

    return read


def _parse(data: bytes, form: str) -> None:
    known = SourceTable(keys=("id",), columns={each.name: each.type for each in SCHEMA.fields})
    options = CdcOptions(table_of=lambda _: known, keys=("id",))
    for _ in changes_of(io.BytesIO(data), "f", cdc_format(form), options):
        pass


def _run(source: Any, executor: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = PaimonCatalogResource(warehouse=folder, executor=executor)
        asset = build_change_log_asset("shop.orders", SCHEMA, source=source)
        assert dg.materialize([asset], resources={"paimon": lake}).success


def _topic(broker: Broker, lines: list[bytes], form: Any) -> KafkaSource:
    topic, producer = broker.create(), broker.producer()
    for line in lines:
        producer.produce(topic, line, _dumps({"id": json.loads(line).get("id", 0)}).encode())
        producer.poll(0)
    producer.flush()
    return KafkaSource(bootstrap=broker.address, topic=topic, format=form)


def _measure(
    name: str, count: int, repeat: int, broker: Broker | None, *, spark: bool
) -> list[str]:
    form, record = RECORDS[name]
    lines = [record(*change).encode() for change in changes(count)]
    data = b"\n".join(lines)
    works: list[Callable[[], Any]] = [
        _arrow(data),
        lambda: [json.loads(line) for line in lines],
        lambda: _parse(data, form),
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "1.json").write_bytes(data)
        landed = FileSource(folder=folder, format=form)
        works += [lambda: _run(landed, "embedded")] if form != "json" else []
        works += [lambda: _run(landed, "spark")] if spark and form != "json" else []
        if broker is not None:
            topic = _topic(broker, lines, form)
            ranges = [OffsetRange(topic=topic.topic or "", partition=0, start=0, end=count)]
            works += [lambda: fetch(topic.client(), ranges), lambda: _run(topic, "embedded")]
        times = [f"{_best(repeat, work) / count * 1e6:.1f}" for work in works]
    if form == "json":
        times[3:3] = ["-"] * (1 + spark)
    return [name, str(len(data) // count), *times]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--kafka", action="store_true", help="also from a broker, started for it")
    parser.add_argument("--spark", action="store_true", help="also by the executor of Spark")
    parser.add_argument("--only", default="", help="a part of the records' name")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    titles = ["records", "bytes", "Arrow", "json.loads", "parsed", "run of a folder"]
    titles += ["run on Spark"] * options.spark + [
        "client's fetch",
        "run of a topic",
    ] * options.kafka
    printed = Printed(*titles, title="µs of CPU a record")
    with running_broker() if options.kafka else nullcontext() as broker:
        for name in RECORDS:
            if options.only in name:
                printed.add_row(
                    *_measure(name, options.records, options.repeat, broker, spark=options.spark)
                )
    Console(width=140).print(printed)


if __name__ == "__main__":
    main()
