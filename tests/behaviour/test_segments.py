"""Segments come in and are read alike, whoever reads footers and files."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, SegmentSource
from tests.testkit.foreign import write

SALES = Schema.of({"v": "INT", "s": "STRING", "day": "INT"}, partition_keys=["day"])


def _folder(home: Path, name: str) -> Path:
    for day in range(3):
        for part in range(2):
            values = pa.array([10 * day + part, None], pa.int32())
            data = pa.table({"s": [name, "none"], "v": values})
            write(home / name / f"day={day}" / f"{part}.{name}", data)
    return home / name


def test_segments_of_several_formats_are_one_table(runner, new_catalog, tmp_path):
    table = new_catalog.create_table("db.sales", SALES)
    formats = ("parquet", "orc", "avro", "csv")
    for name in formats:
        source = SegmentSource(path=str(_folder(tmp_path, name)), format=name, partition="day:int")
        outcome = table.segments().add(source, runner.executor)
        assert [segment.row_count for segment in outcome.segments] == [4, 4, 4]
    own = pa.table({"v": pa.array([7], pa.int32()), "s": ["own"], "day": pa.array([1], pa.int32())})
    table.new_write_builder().write(runner.as_rows(own), runner.executor)
    late = table.new_read_builder().with_filter("day = 1 AND v >= 7").to_arrow(runner.executor)
    expected = {(value, name, 1) for value in (10, 11) for name in formats} | {(7, "own", 1)}
    assert {tuple(row.values()) for row in late.to_pylist()} == expected
    everything = table.new_read_builder().with_columns(["s"]).to_arrow(runner.executor)
    assert everything.num_rows == 4 * 12 + 1
    *_, load = table.segments().listed()
    assert (load.id, load.row_count, load.format) == (12, 1, "parquet")
    table.segments().delete([load.id])
    left = table.new_read_builder().with_columns(["s"]).to_arrow(runner.executor)
    assert left.num_rows == 4 * 12


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "csv", "json"])
@pytest.mark.parametrize("held", [[99, 99], [None, None], [1, 99]])
def test_partition_filter_uses_folders_not_file_contents(runner, new_catalog, tmp_path, name, held):
    table = new_catalog.create_table("db.sales", SALES)
    for day in (1, 2):
        data = {"v": pa.array([day, None], pa.int32()), "s": ["x", "y"]}
        data["day"] = pa.array(held, pa.int32())
        write(tmp_path / "in" / f"day={day}" / f"0.{name}", pa.table(data))
    source = SegmentSource(path=str(tmp_path / "in"), format=name, partition="day:int")
    table.segments().add(source, runner.executor)
    expected = {
        "day = 1": {(1, "x", 1), (None, "y", 1)},
        "day = 1 AND v = 1": {(1, "x", 1)},
        "day = 99 OR v = 2": {(2, "x", 2)},
        "NOT day = 1 OR v = 1": {(1, "x", 1), (2, "x", 2), (None, "y", 2)},
        "day IS NULL OR day = 99": set(),
    }
    for where, found in expected.items():
        read = table.new_read_builder().with_filter(where)
        rows = read.to_arrow(runner.executor).to_pylist()
        assert {tuple(row.values()) for row in rows} == found, where
        assert read.count(runner.executor) == len(found), where
        for frame in runner.frames(read, table, where=where):
            assert {tuple(row) for row in frame.collect()} == found, where


def test_headerless_semicolon_csv_reads_same(runner, new_catalog, tmp_path):
    table = new_catalog.create_table("db.sales", SALES)
    (tmp_path / "c" / "day=3").mkdir(parents=True)
    (tmp_path / "c" / "day=3" / "0.csv").write_text("1;'a;b'\n;'none'\n")
    source = SegmentSource(
        path=str(tmp_path / "c"),
        format="csv",
        partition="day:int",
        options={"sep": ";", "header": "false", "quote": "'"},
    )
    [segment] = table.segments().add(source, runner.executor).segments
    assert (segment.row_count, segment.options["sep"]) == (2, ";")
    found = table.new_read_builder().to_arrow(runner.executor).to_pylist()
    assert {tuple(row.values()) for row in found} == {(1, "a;b", 3), (None, "none", 3)}


def test_differing_file_is_named_by_its_reader(runner, new_catalog, tmp_path):
    table = new_catalog.create_table("db.sales", SALES)
    folder = _folder(tmp_path, "parquet")
    write(folder / "day=9" / "0.parquet", pa.table({"s": ["x"], "v": ["y"]}))
    source = SegmentSource(path=str(folder), partition="day:int")
    with pytest.raises(InvalidInputError, match=r"Schema is not same.*day=9/0\.parquet"):
        table.segments().add(source, runner.executor)
    assert table.latest_snapshot() is None
