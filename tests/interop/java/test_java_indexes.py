"""File indexes: a file whose index rules a value out is not opened, whoever wrote the index.

There are no statistics, and the data files are gone: only an index can answer without an error.
"""

from pathlib import Path
from typing import Any

import pytest

from paimon_assets import NotFoundError, Schema, Table
from tests.interop.steps import JavaSide, OurSide, Write
from tests.testkit.oracle import Oracle, OracleError

pytestmark = pytest.mark.interop

COLUMNS = {"id": "BIGINT", "name": "STRING", "kind": "INT", "amount": "INT"}
OPTIONS = {
    "bucket": "-1",
    "metadata.stats-mode": "none",
    "file-index.bloom-filter.columns": "id,name",
    "file-index.bloom-filter.id.items": "50",
    "file-index.bloom-filter.id.fpp": "0.0001",
    "file-index.bloom-filter.name.items": "50",
    "file-index.bloom-filter.name.fpp": "0.0001",
    "file-index.bitmap.columns": "kind",
}
PLACES = {"in the manifest": "1 mb", "in a file": "1 b"}
ROWS = tuple(
    {"id": n, "name": f"name {n}", "kind": None if n == 9 else n % 3 * 2, "amount": n * 10}
    for n in range(3, 30, 3)
)
FOUND: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("id", "equal", (6,)),
    ("name", "in", ("name 12", "x")),
    ("kind", "equal", (0,)),
    ("kind", "isNull", ()),
    ("amount", "greaterOrEqual", (265,)),
)
RULED_OUT: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("id", "equal", (7,)),
    ("id", "in", (1, 2, 100)),
    ("name", "equal", ("name 4",)),
    ("kind", "equal", (1,)),
    ("kind", "in", (1, 3)),
)
SIGNS = {"equal": "=", "greaterOrEqual": ">=", "lessThan": "<"}


def _create(ours: OurSide, java: Oracle, name: str, writer: str, options: dict[str, str]) -> Table:
    table = ours.create(f"indexes.{name}", Schema.of(COLUMNS, options={**OPTIONS, **options}))
    (ours if writer == "we" else JavaSide(java, ours)).do(table.name, Write(ROWS))
    return table


def _our_ids(table: Table, column: str, function: str, literals: tuple[Any, ...]) -> list[int]:
    if function == "isNull":
        where = f"{column} IS NULL"
    elif function == "in":
        where = f"{column} IN ({', '.join(map(repr, literals))})"
    else:
        where = f"{column} {SIGNS[function]} {literals[0]!r}"
    rows = table.new_read_builder().with_filter(where).to_arrow()
    return sorted(row["id"] for row in rows.to_pylist())


def _java_ids(
    java: Oracle, table: Table, column: str, function: str, literals: tuple[Any, ...]
) -> list[int]:
    asked = {"column": column, "function": function, "literals": literals}
    return sorted(row[0] for row in java.call("rows", table=table.name, filter=asked))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("writer", ["we", "java"])
def test_indexes_prune_files(
    writer: str, place: str, version: str, java: Oracle, shared_warehouse: Path
) -> None:
    options = {
        "file-index.in-manifest-threshold": PLACES[place],
        "file-index.bitmap.kind.version": version,
    }
    name = f"{writer}_{place.replace(' ', '_')}_{version}"
    table = _create(OurSide(shared_warehouse), java, name, writer, options)
    for asked in FOUND:
        found = _our_ids(table, *asked)
        assert found
        assert _java_ids(java, table, *asked) == found
    for path in Path(table.path).glob("bucket-*/data-*.parquet"):
        path.unlink()
    for asked in RULED_OUT:
        assert _our_ids(table, *asked) == []
        assert _java_ids(java, table, *asked) == [], asked
    with pytest.raises(NotFoundError):
        _our_ids(table, *FOUND[0])
    with pytest.raises(OracleError):
        _java_ids(java, table, *FOUND[0])
