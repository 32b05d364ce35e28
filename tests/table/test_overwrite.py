"""Overwrites through the public API."""

from datetime import date

import pyarrow as pa
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome
from tests.testkit.errors import refused
from tests.testkit.tables import arrow, new_catalog_in, read

COLUMNS = {"dt": "DATE", "hh": "INT", "id": "BIGINT", "v": "STRING"}
APPEND = Schema.of(COLUMNS, partition_keys=["dt", "hh"])
KEYED = Schema.of(
    COLUMNS, partition_keys=["dt", "hh"], primary_keys=["dt", "hh", "id"], options={"bucket": "2"}
)
FIRST, SECOND = "2024-01-01", "2024-01-02"


@pytest.fixture
def catalog(tmp_path) -> TableCatalog:
    return new_catalog_in(tmp_path, "d")


@pytest.fixture(params=[APPEND, KEYED], ids=["append", "key"])
def table(catalog, request):
    made = catalog.create_table("d.t", request.param)
    _write(made.new_write_builder(), (FIRST, 1, 1), (FIRST, 2, 1), (SECOND, 1, 1), (SECOND, 1, 2))
    return made


def _write(builder: WriteBuilder, *rows: tuple[str | None, int, int]) -> WriteOutcome:
    days = [None if day is None else date.fromisoformat(day) for day, _, _ in rows]
    given = [(day, hh, number, "v") for day, (_, hh, number) in zip(days, rows, strict=True)]
    return builder.write(arrow(COLUMNS, *given), EmbeddedExecutor())


def _read(table: Table) -> list[tuple[str, int, int]]:
    return [(str(day), hh, number) for day, hh, number in read(table, ["dt", "hh", "id"])]


def test_partitions_that_get_rows_are_replaced(table):
    outcome = _write(table.new_write_builder().with_overwrite(), (FIRST, 1, 9))
    assert outcome.snapshot is not None
    assert outcome.snapshot.commit_kind is CommitKind.OVERWRITE
    assert _read(table) == [(FIRST, 1, 9), (FIRST, 2, 1), (SECOND, 1, 1), (SECOND, 1, 2)]
    assert _write(table.new_write_builder().with_overwrite()).snapshot is None


def test_static_partition_is_replaced_with_subpartitions(table):
    into = table.new_write_builder().with_overwrite({"dt": SECOND})
    _write(into, (SECOND, 7, 1))
    assert _read(table) == [(FIRST, 1, 1), (FIRST, 2, 1), (SECOND, 7, 1)]
    _write(into)
    assert _read(table) == [(FIRST, 1, 1), (FIRST, 2, 1)]


def test_rows_of_other_partitions_are_refused_without_leftovers(table, tmp_path):
    before = set(tmp_path.rglob("*.parquet"))
    into = table.new_write_builder().with_overwrite({"dt": SECOND})
    with refused(
        InvalidInputError, r"table 'd\.t'.*dt = 2024-01-01, hh = 1", kind="overwrite-partition"
    ):
        _write(into, (SECOND, 7, 1), (FIRST, 1, 9))
    assert set(tmp_path.rglob("*.parquet")) == before
    assert table.snapshots()[-1].id == 1


def test_whole_table_is_replaced(table):
    _write(table.new_write_builder().with_overwrite({}), (SECOND, 5, 5))
    assert _read(table) == [(SECOND, 5, 5)]
    _write(table.new_write_builder().with_overwrite({}))
    assert _read(table) == []


def test_option_makes_overwrite_static(catalog, table):
    static = catalog.get_table("d.t", options={"dynamic-partition-overwrite": "false"})
    _write(static.new_write_builder().with_dynamic_overwrite(), (FIRST, 1, 9))
    assert len(_read(table)) == 4
    _write(static.new_write_builder().with_overwrite(), (FIRST, 1, 9))
    assert _read(table) == [(FIRST, 1, 9)]


def test_table_without_partitions_is_replaced_as_whole(catalog):
    schema = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "2"})
    table = catalog.create_table("d.u", schema)
    for ids in ([1, 2, 3], [3, 4], []):
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        table.new_write_builder().with_overwrite().write(rows, EmbeddedExecutor())
        assert sorted(table.to_arrow()["id"].to_pylist()) == ids


def test_wrong_partition_is_refused_first(table):
    with pytest.raises(InvalidInputError, match="not partitioned by column 'id'"):
        table.new_write_builder().with_overwrite({"id": 1})


def test_buckets_are_rescaled(catalog):
    catalog.create_table("d.k", KEYED)
    rows = [(day, 1, number) for day in (FIRST, SECOND) for number in range(20)]
    _write(catalog.get_table("d.k").new_write_builder(), *rows)
    wide = catalog.get_table("d.k", options={"bucket": "8"})
    _write(wide.new_write_builder().with_overwrite(), *rows[:20])
    _write(wide.new_write_builder(), (FIRST, 1, 20), (SECOND, 1, 20))
    assert _read(wide) == sorted([*rows, (FIRST, 1, 20), (SECOND, 1, 20)])
    counts = {
        (wide.state.partition_text(e.partition)["dt"], e.total_buckets)
        for e in wide.state.live_files()
    }
    assert len(counts) == 2
    assert {count for _, count in counts} == {2, 8}


def test_truncate_keeps_history(table):
    made = table.truncate()
    assert (made.commit_kind, made.total_record_count) == (CommitKind.OVERWRITE, 0)
    assert _read(table) == []
    assert table.new_read_builder().at_snapshot(1).to_arrow().num_rows == 4
    _write(table.new_write_builder(), (FIRST, 1, 1))
    assert _read(table) == [(FIRST, 1, 1)]


def test_partitions_are_dropped(table):
    table.drop_partitions([{"dt": FIRST, "hh": 2}, {"dt": SECOND}])
    assert _read(table) == [(FIRST, 1, 1)]
    for specs in ([], [{}], [{"dt": FIRST}, {}], [{"id": 1}]):
        with refused(InvalidInputError, kind="partition-spec"):
            table.drop_partitions(specs)
    assert _read(table) == [(FIRST, 1, 1)]
