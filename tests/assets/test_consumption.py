"""Incremental inputs: the asset records how far they were read, so each change counts once."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema, Table
from paimon_assets.assets import PaimonCatalogResource, paimon_asset, paimon_input, paimon_output
from paimon_assets.assets.tables import consumption
from tests.testkit.asset_tables import failure_text, rows_of
from tests.testkit.io_manager_runs import io_run
from tests.testkit.tables import new_table

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "orders"])
SCHEMA = Schema.of({"id": "BIGINT"})


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def put(paimon: PaimonCatalogResource, *numbers: int) -> None:
    table_of(paimon, "orders").new_write_builder().write(rows(*numbers), EmbeddedExecutor())


def table_of(paimon: PaimonCatalogResource, name: str) -> Table:
    return paimon.catalog().get_table(f"shop.{name}")


def ids_in_copy(paimon: PaimonCatalogResource) -> list[int]:
    return [row["id"] for row in rows_of(table_of(paimon, "copy"))]


@pytest.fixture
def lake(paimon: PaimonCatalogResource) -> PaimonCatalogResource:
    """Return a lake with a table of three snapshots."""
    new_table(paimon.catalog(), SCHEMA, name="shop.orders")
    for number in (1, 2, 3):
        put(paimon, number)
    return paimon


def by_io_manager(body: Any = lambda table: table, **options: Any) -> list[Any]:
    @dg.asset(
        key=["shop", "copy"],
        ins={"table": dg.AssetIn(KEY, metadata=paimon_input(consumer="copy", **options))},
        metadata=paimon_output(mode="append"),
    )
    def copy(table: pa.Table) -> Any:
        return body(table)

    return [dg.AssetSpec(KEY, metadata=paimon_output(table="shop.orders")), copy]


def by_function(body: Any = lambda table: table, **options: Any) -> list[Any]:
    metadata = paimon_input(consumer="copy", **options)

    @paimon_asset("shop.copy", SCHEMA, ins={"table": dg.AssetIn(KEY, metadata=metadata)})
    def copy(table: pa.Table) -> Any:
        return body(table)

    return [dg.AssetSpec(KEY, metadata=paimon_output(table="shop.orders")), copy]


def run(assets: list[Any], paimon: PaimonCatalogResource) -> None:
    result = io_run(assets, paimon)
    assert result.success, failure_text(result)


@pytest.mark.parametrize("make", [by_io_manager, by_function])
def test_committed_changes_are_not_read_again(make: Any, lake: PaimonCatalogResource) -> None:
    run(make(), lake)
    orders = table_of(lake, "orders")
    orders.consumers.delete("copy")  # the process died before it advanced
    put(lake, 4)
    run(make(), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 4]
    assert orders.consumers.list() == {"copy": 5}
    orders.consumers.reset("copy", 4)
    run(make(), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 4]
    assert orders.consumers.list() == {"copy": 5}


def test_one_of_two_runs_with_same_changes_commits(lake: PaimonCatalogResource) -> None:
    overtaken: list[int] = []

    def race(table: pa.Table) -> pa.Table:
        if not overtaken:
            overtaken.append(1)
            run(by_io_manager(), lake)
        return table

    run(by_io_manager(), lake)
    put(lake, 4)
    run(by_io_manager(race), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 4]


@pytest.mark.parametrize("nothing", ["no rows", "no frame"])
def test_position_advances_without_output_rows(nothing: str, lake: PaimonCatalogResource) -> None:
    def drop(table: pa.Table) -> Any:
        return table.slice(0, 0) if nothing == "no rows" else None

    run(by_function(), lake)
    copy = table_of(lake, "copy")
    put(lake, 4)
    run(by_function(drop), lake)
    newest = copy.latest_snapshot()
    assert newest is not None
    assert newest.id == 2
    assert copy.state.data_version(newest).startswith("1-"), "no row has changed"
    run(by_function(drop), lake)
    assert len(copy.snapshots()) == 2, "nothing to read, no snapshot"
    table_of(lake, "orders").consumers.delete("copy")
    run(by_function(), lake)
    assert ids_in_copy(lake) == [1, 2, 3]


def test_rolled_back_table_reads_its_lost_changes_again(lake: PaimonCatalogResource) -> None:
    run(by_io_manager(), lake)
    put(lake, 4)
    run(by_io_manager(), lake)
    table_of(lake, "copy").rollback_to(1)
    assert ids_in_copy(lake) == [1, 2, 3]
    run(by_io_manager(), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 4]


def test_position_outlives_its_first_snapshot(lake: PaimonCatalogResource) -> None:
    run(by_io_manager(), lake)
    copy = table_of(lake, "copy")
    copy.new_write_builder().write(rows(50), EmbeddedExecutor())
    copy.analyze()
    for number in (1, 2):
        copy.state.file_io.delete_file(f"{copy.path}/snapshot/snapshot-{number}")
    table_of(lake, "orders").consumers.delete("copy")
    put(lake, 4)
    run(by_io_manager(), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 4, 50]


def test_recreated_source_is_read_from_its_beginning(lake: PaimonCatalogResource) -> None:
    run(by_io_manager(), lake)
    lake.catalog().drop_table("shop.orders")
    lake.catalog().create_table("shop.orders", SCHEMA)
    put(lake, 7)
    run(by_io_manager(), lake)
    assert ids_in_copy(lake) == [1, 2, 3, 7]


@pytest.mark.parametrize("later", [(), (8, 9)])
def test_source_rolled_back_below_position_is_refused(
    later: tuple[int, ...], lake: PaimonCatalogResource
) -> None:
    run(by_io_manager(), lake)
    table_of(lake, "orders").rollback_to(2)
    for number in later:
        put(lake, number)
    text = failure_text(io_run(by_io_manager(), lake))
    assert "up to snapshot 3, which was rolled back since" in text
    assert ids_in_copy(lake) == [1, 2, 3]


def overwrite(paimon: PaimonCatalogResource, *numbers: int) -> None:
    builder = table_of(paimon, "orders").new_write_builder().with_overwrite({})
    builder.write(rows(*numbers), EmbeddedExecutor())


def test_overwrite_is_refused_before_consumer_advances(lake: PaimonCatalogResource) -> None:
    run(by_io_manager(), lake)
    overwrite(lake, 7)
    text = failure_text(io_run(by_io_manager(), lake))
    assert "snapshot 4 overwrote rows" in text
    assert "row_kinds=True" in text
    assert table_of(lake, "orders").consumers.list() == {"copy": 4}
    assert ids_in_copy(lake) == [1, 2, 3]


def test_overwrite_is_read_as_row_kinds(lake: PaimonCatalogResource) -> None:
    seen: list[list[tuple[str, int]]] = []

    def look(table: pa.Table) -> pa.Table:
        kinds, ids = [table[name].to_pylist() for name in ("rowkind", "id")]
        seen.append(
            sorted((str(kind), int(number or 0)) for kind, number in zip(kinds, ids, strict=True))
        )
        return table.drop_columns(["rowkind"])

    run(by_io_manager(look, row_kinds=True), lake)
    overwrite(lake, 3, 7)
    run(by_io_manager(look, row_kinds=True), lake)
    run(by_io_manager(look, row_kinds=True), lake)
    assert seen[0] == [("+I", 1), ("+I", 2), ("+I", 3)]
    assert seen[1] == [("+I", 3), ("+I", 7), ("-D", 1), ("-D", 2), ("-D", 3)]
    assert seen[2] == []


def test_reads_of_failed_steps_are_bounded() -> None:
    """In a process that runs for months, such as a script around `dg.materialize`."""
    reads: Any = consumption.READS
    for number in range(1_000):
        reads.add(str(number), "copy", number)
    assert reads.take("0", "copy") == []
    assert reads.take("999", "copy") == [999]
    assert reads.take("999", "copy") == []
