"""Fixtures of the tests of changed rows: tables of every kind, and executors that do more."""

from pathlib import Path

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema

EXECUTOR = EmbeddedExecutor(2)
COLUMNS = {"p": "STRING", "id": "BIGINT", "v": "INT"}
DV = {"deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
APPEND_TABLES = {
    "rewrite": ((), ("p",), {}),
    "rewrite-bucketed": ((), (), BUCKETS),
    "vectors": ((), ("p",), DV),
    "vectors-64": ((), (), {**DV, "deletion-vectors.bitmap64": "true"}),
    "vectors-bucketed": ((), (), {**BUCKETS, **DV}),
}
KEYED_TABLES = {
    "fixed": (("p", "id"), ("p",), {"bucket": "2"}),
    "dynamic": (("p", "id"), ("p",), {"bucket": "-1"}),
    "cross": (("id",), ("p",), {"bucket": "-1"}),
    "sequence": (("id",), (), {"bucket": "1", "sequence.field": "v"}),
    "logged": (("id",), (), {"bucket": "1", "changelog-producer": "input"}),
}
TABLES = {**APPEND_TABLES, **KEYED_TABLES}


def create(catalog, kind, *, name="db.t", **more):
    keys, partition_keys, options = TABLES[kind]
    schema = Schema.of(
        COLUMNS, primary_keys=keys, partition_keys=partition_keys, options={**options, **more}
    )
    return catalog.create_table(name, schema)


def arrow(*rows):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    types = (pa.string(), pa.int64(), pa.int32())
    return pa.table(
        {
            name: pa.array(list(values), arrow_type)
            for name, values, arrow_type in zip(COLUMNS, columns, types, strict=True)
        }
    )


def write(table, *rows):
    return table.new_write_builder().write(arrow(*rows), EXECUTOR).snapshot


def read(table):
    rows = table.new_read_builder().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def changing(table):
    return table.new_row_change_builder()


def all_files(table):
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


def data_files(table):
    return {path.name for path in Path(table.path).rglob("data-*")}


FIRST = [("ab"[n % 2], n, None if n % 5 == 0 else n) for n in range(12)]
SECOND = [("ab"[n % 2], n, n) for n in range(20, 24)]


class Meddling(EmbeddedExecutor):
    """Does something else between the tasks and the commit."""

    def __init__(self, *changes):
        super().__init__(1)
        self.changes = list(changes)
        self.task_counts = []

    def map_tasks(self, batch):
        self.task_counts.append(len(batch.payloads))
        answers = list(super().map_tasks(batch))
        if self.changes:
            self.changes.pop(0)()
        yield from answers
