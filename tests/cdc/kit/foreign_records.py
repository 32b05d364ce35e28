"""Bytes from outside through every parser of change records, in a child: they may end the process.

The child prints a result for each case and way in: the count of records, or a with_types error.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets import PaimonError
from paimon_assets.cdc.assets.change_files import read_changes
from paimon_assets.cdc.fold.topic_changes import TopicChanges
from paimon_assets.cdc.kafka.fetching import Fetched
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.cdc.records.change_batch import CdcOptions
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.cdc.kit.change_logs import debezium, with_types

FORMATS = ("debezium-json", "canal-json", "maxwell-json", "json")
GOOD = {
    "debezium-json": [
        debezium("c", 1, id=1, v="a"),
        debezium("t", 2),
        with_types(debezium("u", 3, id=1, v="b"), id="int64", v="string"),
        json.dumps({"key": {"id": 1}, "value": json.loads(debezium("d", 4, id=1))}),
        json.dumps({"source": {"connector": "mysql"}, "ddl": "DROP TABLE t", "databaseName": "d",
                    "tableChanges": [{"type": "DROP", "id": "d.t", "table": None}]}),
    ],
    "canal-json": [
        json.dumps({"data": [{"id": "1", "v": "a"}], "old": [{"v": "b"}], "type": "UPDATE", "id": 3,
                    "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "es": 5,
                    "mysqlType": {"id": "int", "v": "text"}}),
        json.dumps({"isDdl": True, "type": "ALTER", "sql": "ALTER TABLE t ADD x INT", "table": "t",
                    "database": "d", "data": None}),
    ],
    "maxwell-json": [
        json.dumps({"database": "d", "table": "t", "type": "update", "ts": 1, "xid": 2,
                    "position": "b.1:4", "data": {"id": 1, "v": "a"}, "old": {"v": "b"},
                    "primary_key_columns": ["id"]}),
        json.dumps({"type": "table-alter", "database": "d", "table": "t", "sql": "ALTER TABLE t",
                    "def": {"columns": [{"type": "int", "name": "id", "signed": True}]}}),
    ],
    "json": ['{"id": 1, "v": "a"}', '{"id": 2}'],
}  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1e300, "", "x", "1", [], {}, [None], {"a": 1}, [[]], "null", "{}",
    "\u0000", [1, "x", {}], {"type": "struct"}, {"columns": 1}, {"columns": [1]},
)  # fmt: skip


def mutate(draw: random.Random, value: Any) -> Any:
    """Return JSON with one value inside it replaced, removed or moved."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return draw.choice(_VALUES)
    copy: Any = value.copy()
    key = draw.choice([*value]) if isinstance(value, dict) else draw.randrange(len(value))
    if draw.random() < 0.15:
        del copy[key]
    else:
        copy[key] = mutate(draw, value[key])
    return copy


def draw_case(seed: int) -> tuple[str, bytes]:
    """Return a format and records that are wrong somewhere."""
    draw = random.Random(seed)  # noqa: S311
    name = draw.choice(FORMATS)
    records = [json.loads(text) for text in draw.choices(GOOD[name], k=3)]
    for _ in range(draw.randint(0, 3)):
        at = draw.randrange(len(records))
        records[at] = mutate(draw, records[at])
    data = bytearray("\n".join(map(json.dumps, records)).encode())
    if draw.random() < 0.3:
        data = bytearray(json.dumps(records, indent=draw.choice([None, 1])).encode())
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        data[draw.randrange(len(data))] = draw.choice(b'{}[]",:nt\\0 \n\xff\xc3')
    return name, bytes(data)


def outcomes(cases: Sequence[tuple[str, bytes]]) -> list[str]:
    """Return a line for each case and each way in.

    Raises:
        AssertionError: The child died, or an error is no `PaimonError`; names the case.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cases")
        file.write_text("\n".join(json.dumps((name, data.hex())) for name, data in cases))
        child = subprocess.run(
            [sys.executable, "-m", "tests.cdc.kit.foreign_records", str(file)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = child.stdout.splitlines()
    assert child.returncode == 0, (child.returncode, lines[-1:], child.stderr[-3000:])
    return lines


def _ways(name: str, data: bytes, path: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    path.write_bytes(data)
    letters: list[Any] = []

    def file(options: CdcOptions) -> int:
        batches = read_changes(LocalFileIO(), str(path), cdc_format(name), options)
        return sum(len(batch) for batch in batches) + sum(map(len, letters))

    def topic(options: CdcOptions) -> int:
        good = GOOD[name][0].encode()
        parts = [None, good, *data.split(b"\n")]
        broken = data[:40] if len(data) % 4 == 0 else None
        values: Any = pa.array(parts, pa.binary())
        keys: Any = pa.array([b'{"id": 1}', broken, *[None] * (len(parts) - 2)], pa.binary())
        columns = {"offset": pa.array(range(len(parts))), "value": values, "key": keys}
        columns |= {"timestamp": pa.array([0] * len(parts), pa.timestamp("ms", "UTC"))}
        span = OffsetRange(topic="t", partition=0, start=0, end=len(parts))
        fetched = Fetched(range=span, records=pa.table(columns))
        changes = TopicChanges(format=name, by_offset=True, registry_settings={}, seconds=1)
        return sum(map(len, changes.of(fetched, options))) + sum(map(len, letters))

    for place, read in (("file", file), ("topic", topic)):
        yield place, lambda read=read: read(CdcOptions())  # type: ignore[misc]
        letters.clear()
        yield (
            f"{place} with dead letters",
            lambda read=read: read(  # type: ignore[misc]
                CdcOptions(on_rejected=letters.append)
            ),
        )


def _run(cases: Sequence[str], path: Path) -> int:
    failures = 0
    for number, text in enumerate(cases):
        name, data = json.loads(text)
        sys.stdout.write(f"case {number} {name} {bytes.fromhex(data)[:300]!r}\n")
        for way, attempt in _ways(name, bytes.fromhex(data), path):
            sys.stdout.flush()
            try:
                result = f"{attempt()} records"
            except PaimonError as error:
                result = f"{type(error).__name__} {error.kind}"
            except BaseException:  # noqa: BLE001 - untyped errors are counted
                failures += 1
                result = f"UNTYPED of case {number}"
                traceback.print_exc()
                sys.stderr.write(f"{way} {name} {bytes.fromhex(data)[:300]!r}\n")
            sys.stdout.write(f"{way}: {result}\n")
    return failures


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(min(_run(Path(sys.argv[1]).read_text().splitlines(), Path(place, "1.json")), 100))
