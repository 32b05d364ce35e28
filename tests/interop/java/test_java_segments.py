"""Imported files: Java reads them in place, and its expiration spares our files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets import Schema, SegmentSource, Table
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.removed_segments import forget_removed
from paimon_assets.engine.control.segments import HOLD_TAG_PREFIX
from tests.interop.java_values import as_java_texts, java_rows
from tests.interop.steps import Compact, Empty, JavaSide, OurSide, Write
from tests.testkit.foreign import states, write
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

ROWS = pa.table({"v": pa.array([1, 2, None], pa.int32()), "s": ["a", None, "c"]})
LAYOUTS = {
    "plain": ROWS,
    "other_order": ROWS.select(["s", "v"]),
    "more_columns": ROWS.append_column("extra", pa.array([1.0, 2.0, 3.0])),
    "wrong_partition_column": ROWS.append_column("day", pa.array([9, 9, 9], pa.int32())),
}
_NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=99)
OWN = Write(tuple({"v": n, "s": "own", "day": n % 2} for n in range(4)))


def _import_folder(
    warehouse: Path, folder: Path, name: str, data: pa.Table, suffix: str
) -> tuple[OurSide, Table]:
    """Return a table of two segments and a commit of its own rows."""
    ours = OurSide(warehouse)
    schema = Schema.of({"v": "INT", "s": "STRING", "day": "INT"}, partition_keys=["day"])
    table = ours.create(f"segments.{name}", schema)
    for part in ("x", "y"):
        for day in ("1", "__HIVE_DEFAULT_PARTITION__"):
            write(folder / part / f"day={day}" / f"same-name.{suffix}", data)
        source = SegmentSource(path=str(folder / part), format=suffix, partition="day:int")
        table.segments().add(source, ours.executor)
    table = table.refresh()
    ours.do(table.name, OWN)
    return ours, table


def _same(java: Oracle, table: Table, **options: Any) -> list[str]:
    fields = table.schema.fields
    found = as_java_texts(table.new_read_builder().with_options(options).to_arrow(), fields)
    assert java_rows(java, table.name, fields, options=options) == found
    return found


@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_reads_imported_segments(
    layout: str, suffix: str, java: Oracle, shared_warehouse: Path, tmp_path: Path
) -> None:
    if suffix == "avro" and layout == "wrong_partition_column":
        pytest.skip("one layout with the column is enough for a format without statistics")
    name = f"java_{layout}_{suffix}"
    _, table = _import_folder(shared_warehouse, tmp_path, name, LAYOUTS[layout], suffix)
    before = states(tmp_path)
    assert len(_same(java, table)) == 16
    asked = {"column": "v", "function": "equal", "literals": [2]}
    rows = java.call("rows", table=table.name, filter=asked)
    assert len(rows) == table.new_read_builder().with_filter("v = 2").to_arrow().num_rows == 5
    asked = {"or": [asked, {"column": "day", "function": "equal", "literals": [1]}]}
    # Java looks at bounds alone where a filter is of more than partition columns.
    files = java.call("files", table=table.name, filter=asked)
    read = table.new_read_builder().with_filter("day = 1 OR v = 2")
    needed = {file.file_name for split in read.plan().splits for file in split.data_files}
    assert needed <= set(files)
    for day, number in ((1, 8), (9, 0)):
        day_filter = {"column": "day", "function": "equal", "literals": [day]}
        rows = java.call("rows", table=table.name, filter=day_filter)
        ours = table.new_read_builder().with_filter(f"day = {day}").to_arrow()
        assert len(rows) == ours.num_rows == number
    assert states(tmp_path) == before


REMOVALS: dict[str, Callable[[OurSide, Table], Any]] = {
    "deleted": lambda ours, table: table.segments().delete([0]),
    "truncated": lambda ours, table: ours.do(table.name, Empty()),
    "partition_dropped": lambda ours, table: ours.do(table.name, Empty(({"day": "1"},))),
    "overwritten": lambda ours, table: ours.do(table.name, Write(OWN.rows, replaces={})),
    "compacted": lambda ours, table: ours.do(table.name, Compact()),
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_javas_expiration_spares_held_files(
    removal: str, java: Oracle, shared_warehouse: Path, tmp_path: Path
) -> None:
    ours, table = _import_folder(shared_warehouse, tmp_path, f"held_{removal}", ROWS, "parquet")
    before = states(tmp_path)
    REMOVALS[removal](ours, table)
    for _ in range(2):
        ours.do(table.name, OWN)
    expected = _same(java, table)
    assert java.call("change", table=table.name, action="expire", keep=1) > 0
    assert states(tmp_path) == before
    assert _same(java, table) == expected
    held = [tag.name for tag in table.tags.list()]
    assert bool(held) == (removal != "compacted")
    for name in held:
        _same(java, table, **{"scan.tag-name": name})


def test_java_keeps_files_after_their_hold_expired(
    java: Oracle, shared_warehouse: Path, tmp_path: Path
) -> None:
    ours, table = _import_folder(shared_warehouse, tmp_path, "let_go", ROWS, "parquet")
    before = states(tmp_path)
    for name in ("early", "late"):
        table.tags.create(name)
        ours.do(table.name, OWN)
    table.segments().delete([0])
    table.segments().delete([1])
    for tag in ("late", "early", None):
        ours.do(table.name, OWN)
        expire_snapshots(table._store, retention=_NEWEST)
        forgotten = forget_removed(table._store)
        held = any(each.name.startswith(HOLD_TAG_PREFIX) for each in table.tags.list())
        assert held == (tag is not None)
        assert bool(forgotten.tags) == (tag is None)
        if tag is not None:
            java.call("change", table=table.name, action="delete_tag", name=tag)
        for _ in range(2):
            ours.do(table.name, OWN)
        expected = _same(java, table)
        assert java.call("change", table=table.name, action="expire", keep=1) > 0
        assert states(tmp_path) == before
        assert _same(java, table) == expected


def test_segments_are_read_after_java_compaction(
    java: Oracle, shared_warehouse: Path, tmp_path: Path
) -> None:
    ours, table = _import_folder(shared_warehouse, tmp_path, "around", ROWS, "parquet")
    expected = _same(java, table)
    table.tags.create("keep")
    before = states(tmp_path)
    JavaSide(java, ours).do(table.name, Compact())
    assert _same(java, table) == expected
    assert java.call("change", table=table.name, action="expire", keep=1) > 0
    assert states(tmp_path) == before
    assert _same(java, table) == expected
