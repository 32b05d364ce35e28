"""pypaimon reads imported tables: every layout of foreign files that it supports."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, SegmentSource
from tests.testkit.foreign import states, write
from tests.testkit.oracle import Oracle
from tests.testkit.tables import new_table

pytestmark = pytest.mark.interop

EXECUTOR = EmbeddedExecutor(threads=2)
ROWS = pa.table({"v": pa.array([1, 2, None], pa.int32()), "s": ["a", None, "c"]})
LAYOUTS = {
    "plain": ROWS,
    "other_order": ROWS.select(["s", "v"]),
    "more_columns": ROWS.append_column("extra", pa.array([1.0, 2.0, 3.0])),
    "wrong_partition_column": ROWS.append_column("day", pa.array([9, 9, 9], pa.int32())),
}


def _sort_rows(table: pa.Table) -> list[tuple[object, ...]]:
    rows = table.select(["v", "s", "day"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pypaimon_reads_imported_segments(
    pypaimon: Oracle, shared_warehouse: Path, tmp_path: Path, layout: str, format_name: str
) -> None:
    data = LAYOUTS[layout]
    if format_name == "avro" and layout == "wrong_partition_column":
        pytest.skip("one layout with the column is enough for a format without statistics")
    name = f"segments.{layout}_{format_name}"
    columns = {"v": "INT", "s": "STRING", "day": "INT"}
    table = new_table(shared_warehouse, columns, name=name, partition_keys=["day"])
    for day in ("1", "__HIVE_DEFAULT_PARTITION__"):
        for part in ("x", "y"):
            write(tmp_path / part / f"day={day}" / f"same-name.{format_name}", data)
    before = states(tmp_path)
    for part in ("x", "y"):
        source = SegmentSource(path=str(tmp_path / part), format=format_name, partition="day:int")
        table.segments().add(source, EXECUTOR)
    own = pa.table({"v": [7], "s": ["own"], "day": [1]})
    table.new_write_builder().write(own, EXECUTOR)
    expected = _sort_rows(table.new_read_builder().to_arrow())
    assert len(expected) == 13
    assert _sort_rows(pypaimon.read(name)) == expected
    assert states(tmp_path) == before


def test_pypaimon_still_reads_after_segment_is_deleted(
    pypaimon: Oracle, shared_warehouse: Path, tmp_path: Path
) -> None:
    table = new_table(shared_warehouse, {"v": "INT", "s": "STRING"}, name="segments.deleted")
    for number in range(2):
        write(tmp_path / str(number) / "1.parquet", ROWS)
        write(tmp_path / f"csv-{number}" / "1.csv", ROWS)
        source = SegmentSource(path=str(tmp_path / str(number)))
        table.segments().add(source, EXECUTOR)
        text = SegmentSource(path=str(tmp_path / f"csv-{number}"), format="csv")
        table.segments().add(text, EXECUTOR)
    table.segments().delete([0])
    assert table.new_read_builder().to_arrow().num_rows == 9
    assert pypaimon.read("segments.deleted").num_rows == 3
