"""Bugs that users met in Paimon's and Iceberg's own libraries, as tests of this one.

Orphans beside an expiration (apache/paimon 7710) are in `tests/faults/test_races_of_cleaning.py`.
"""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from paimon_assets import Schema, add_column, open_catalog
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.s3_server import BUCKET, s3_server
from tests.testkit.tables import new_catalog_in, new_table, read, write


@pytest.mark.parametrize("bucket", ["1", "4", "-1"])
def test_key_in_other_order_than_columns(catalog, bucket):
    """apache/paimon 9800: rows were doubled."""
    columns, options = {"a": "STRING", "v": "INT", "b": "INT"}, {"bucket": bucket}
    table = new_table(catalog, columns, primary_keys=["b", "a"], options=options)
    for value in range(4):
        keys = [(letter, value, number) for letter in "xyz" for number in range(5)]
        write(table, *keys[value:])
        if value == 2:
            table.compact(full=True)
    expected = {}
    for value in range(4):
        keys = [(letter, number) for letter in "xyz" for number in range(5)]
        expected |= dict.fromkeys(keys[value:], value)
    assert read(table) == sorted((a, v, b) for (a, b), v in expected.items())


def test_upsert_after_column_was_added(catalog):
    """apache/iceberg-python 3105: rows that had been written before the column failed."""
    table = new_table(catalog, {"k": "INT", "v": "INT"}, (1, 1), (2, 2), primary_keys="k")
    table = table.alter([add_column("note", string())])
    write(table, (2, 20, "two"), (3, 30, None))
    assert read(table) == [(1, 1, None), (2, 20, "two"), (3, 30, None)]


def test_late_row_is_not_old_row_of_lookup_changelog(catalog):
    """apache/paimon 7220: -U showed a row that a newer one had replaced."""
    options = {"bucket": "1", "changelog-producer": "lookup", "sequence.field": "at"}
    columns = {"k": "INT", "at": "INT", "v": "STRING"}
    table = new_table(catalog, columns, (1, 10, "newest"), primary_keys="k", options=options)
    table.compact(full=True)
    write(table, (1, 5, "late"))
    table.compact()
    write(table, (1, 7, "also late"))
    table.compact()
    write(table, (1, 20, "after"))
    table.compact()
    last = table.latest_snapshot().id
    changes = table.copy(
        {"incremental-between": f"2,{last}", "incremental-between-scan-mode": "changelog"}
    )
    rows = changes.system_table("audit_log").to_arrow().to_pylist()
    updates = [(row["rowkind"], row["v"]) for row in rows if row["v"] in ("late", "also late")]
    assert updates == []
    assert ("-U", "newest") in [(row["rowkind"], row["v"]) for row in rows]
    assert rows[-1]["rowkind"] == "+U"
    assert rows[-1]["v"] == "after"


def test_writers_on_object_store_lose_no_commit():
    """apache/paimon 9714: of commits at one time on an object store the last one stayed."""
    with s3_server() as options:
        root = f"s3://{BUCKET}/{uuid4()}"
        catalog = new_catalog_in(root, options=options)
        catalog.create_table("db.t", Schema.of({"writer": "INT", "number": "INT"}))

        def append(writer):
            table = open_catalog(root, options).get_table("db.t")
            for number in range(3):
                write(table, (writer, number))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(append, range(6)))
        table = catalog.get_table("db.t")
        assert set(read(table)) == {(writer, number) for writer in range(6) for number in range(3)}
        assert table.latest_snapshot().id == table.count() == 18
