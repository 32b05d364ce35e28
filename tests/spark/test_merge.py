"""DataFrames merged into tables: as the same rows merged from memory are."""

import datetime as dt
import socket
import uuid
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import WhenMatched
from tests.testkit.row_changing import (
    EXECUTOR,
    FIRST,
    all_files,
    arrow,
    changing,
    create,
    data_files,
    read,
    write,
)
from tests.testkit.rows import rows_to_arrow
from tests.testkit.tables import new_table

pytestmark = pytest.mark.spark
clientserver = pytest.importorskip("py4j.clientserver")
java_gateway = pytest.importorskip("py4j.java_gateway")
classic = pytest.importorskip("pyspark.sql.classic.dataframe")
merging = pytest.importorskip("paimon_assets.spark.dataframes.merge")
types = pytest.importorskip("paimon_assets.spark.types")
scanned_rows = pytest.importorskip("paimon_assets.spark.executor").scanned_rows

SOURCE = arrow(("a", 2, 200), ("b", 3, 300), ("a", 10, 0), ("a", 40, 400), ("b", 41, None))

TAKEN = {"v": parse_expression("source.v")}


def frame_of(spark, rows):
    return spark.createDataFrame(rows, types.arrow_to_spark_schema(rows.schema)).repartition(2)


def test_matches_are_updated_and_new_rows_inserted(spark, new_catalog):
    table = create(new_catalog, "vectors")
    write(table, *FIRST)
    summed = {"v": parse_expression("coalesce(v, 1) + source.v")}
    frame, user = frame_of(spark, SOURCE), changing(table).with_commit_user("ann")
    how = {"on": ["id"], "when_matched": summed}
    tried = merging.merge_dataframe(user.with_dry_run(), frame, **how)
    assert (tried.rows_matched, tried.rows_inserted, tried.snapshot) == (3, 2, None)
    outcome = merging.merge_dataframe(user, frame, **how)
    assert (outcome.rows_matched, outcome.rows_inserted) == (3, 2)
    expected = {row[1]: row for row in FIRST}
    expected.update({2: ("a", 2, 202), 3: ("b", 3, 303), 10: ("a", 10, 1)})
    expected.update({40: ("a", 40, 400), 41: ("b", 41, None)})
    assert read(table) == sorted(expected.values(), key=repr)
    assert outcome.snapshot == table.latest_snapshot()
    assert outcome.snapshot.id == 2
    assert merging.merge_dataframe(user, frame, **how).was_already_committed


def test_ended_jvm_has_released_its_objects(spark, new_catalog):
    """A driver outlives its JVM; its earlier commits are no failure."""
    schema = create(new_catalog, "vectors").schema
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        java = clientserver.JavaParameters(port=unused.getsockname()[1])
        python = clientserver.PythonParameters(port=0, eager_load=False)
        gone = clientserver.ClientServer(java, python)
        source = merging.FrameSource.of("t", schema, frame_of(spark, SOURCE), ["id"])
        source._rows = classic.DataFrame(java_gateway.JavaObject("o1", gone._gateway_client), spark)
        with pytest.raises(ConnectionRefusedError):
            source._rows.count()
        source.close()


def merge_frame(frame, target, on, *, held=0, broadcast_bytes=0, kind=merging.FrameSource, **how):
    """Merge like `merge_dataframe`, a frame that counts as small or large."""
    schema = target.store.schema
    with closing(kind.of("t", schema, frame, on)) as source:
        source.held_bytes, source.broadcast_bytes = held, broadcast_bytes
        return target.merge_from(source, **how)


@pytest.mark.parametrize(
    ("kind", "matched", "inserts", "size"),
    [
        ("rewrite", WhenMatched.UPDATE, True, {}),
        ("vectors-bucketed", WhenMatched.DELETE, True, {"broadcast_bytes": 1 << 20}),
        ("fixed", {"v": parse_expression("v + source.v")}, False, {}),
        ("cross", TAKEN, True, {"broadcast_bytes": 1 << 20}),
        ("rewrite", WhenMatched.UPDATE, True, {"held": 1 << 20}),
        ("cross", WhenMatched.DELETE, True, {"held": 1 << 20}),
        ("fixed", {"v": parse_expression("v + source.v")}, False, {"held": 1 << 20}),
    ],
)
def test_random_sources_equal_memory_merge(spark, new_catalog, kind, matched, inserts, size):
    draw = np.random.default_rng(7)
    ours, twin = create(new_catalog, kind), create(new_catalog, kind, name="db.twin")
    for rows in (_draw_rows(draw), _draw_rows(draw)):
        for table in (ours, twin):
            write(table, *rows)
    on = ours.schema.primary_keys or ("id", "p")
    how = {"when_matched": matched, "inserts": inserts}
    rows = arrow(*_draw_rows(draw))
    model = changing(twin).merge(rows, on=on, **how)
    frame = frame_of(spark, rows)
    done = merge_frame(frame, changing(ours), on, **size, **how)
    assert (done.rows_matched, done.rows_inserted) == (model.rows_matched, model.rows_inserted)
    assert model.rows_matched
    assert read(ours) == read(twin)


def _draw_rows(draw):
    numbers, values = draw.permutation(30)[:14].tolist(), draw.integers(9, size=14).tolist()
    return [("ab"[number % 2], number, v) for number, v in zip(numbers, values, strict=True)]


def test_keys_of_many_types(spark, new_catalog):
    """Values of the source's types match those of the table's; null matches nothing."""
    columns = {
        "flag": "BOOLEAN",
        "day": "DATE",
        "price": "DECIMAL(20, 2)",
        "at": "TIMESTAMP(3)",
        "raw": "BYTES",
        "text": "STRING",
        "n": "SMALLINT",
        "v": "INT",
    }
    table = new_table(new_catalog, columns, partition_keys=["n"])
    day, at = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 0, 5000)
    row = {"flag": True, "day": day, "price": Decimal("-1.50"), "at": at, "raw": b"\0x"}
    rows = [{**row, "text": "é", "n": 1, "v": 1}, {**row, "text": None, "n": 1, "v": 2}]
    table.new_write_builder().write(rows_to_arrow(rows, table.schema), EXECUTOR)
    changed = [{**each, "v": each["v"] + 10} for each in rows]
    source = spark.createDataFrame(
        [tuple(each.values()) for each in changed],
        "flag boolean, day date, price decimal(10, 2), at timestamp_ntz, raw binary, text string,"
        " n bigint, v int",
    )
    on = [name for name in columns if name != "v"]
    outcome = merging.merge_dataframe(table, source, on=on)
    assert (outcome.rows_matched, outcome.rows_inserted) == (1, 1)
    found = table.new_read_builder().with_columns(["v"]).to_arrow()
    assert sorted(found.column("v").to_pylist()) == [2, 11, 12]


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_source_is_evaluated_once(spark, new_catalog, tmp_path, held):
    table = create(new_catalog, "rewrite")
    write(table, *FIRST)
    directory = tmp_path / "counted"
    directory.mkdir()
    frame = frame_of(spark, SOURCE)
    counted = frame.mapInArrow(counting(str(directory)), frame.schema)
    merge_frame(counted, changing(table), ["id"], held=held, when_matched=TAKEN)
    assert len(list(directory.iterdir())) == 2


def counting(directory):
    def run(batches):
        Path(directory, uuid.uuid4().hex).touch()
        yield from batches

    return run


@pytest.mark.parametrize(
    ("source", "on", "kind"),
    [
        (arrow(("a", 2, 1), ("a", 2, 2), ("b", 3, 1)), ["id"], "merge-duplicates"),
        (pa.table({"id": ["2"], "v": [1]}), ["id"], "merge-on"),
        (pa.table({"id": [2]}), ["p"], "column-not-found"),
        (pa.table({"id": [77], "v": [1]}), ["id"], "input-columns"),
    ],
)
def test_sources_that_are_refused(spark, new_catalog, source, on, kind):
    table = create(new_catalog, "rewrite")
    write(table, *FIRST)
    before = data_files(table)
    for held in (0, 1 << 20):
        with pytest.raises(InvalidInputError) as caught:
            merge_frame(frame_of(spark, source), changing(table), on, held=held, when_matched=TAKEN)
        assert caught.value.kind == kind
        if kind == "merge-duplicates":
            assert "1 key several" in caught.value.message
            assert "{'id': 2}" in caught.value.message
    assert data_files(table) == before


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_task_that_fails_leaves_no_files(spark, new_catalog, held):
    """Values of partition b do not fit; files of partition a's task are deleted."""
    table = create(new_catalog, "rewrite")
    write(table, *FIRST)
    before = all_files(table)
    summed = {"v": parse_expression("v + source.v")}
    source = frame_of(spark, arrow(("a", 2, 1), ("b", 3, 2**31 - 1)))
    with pytest.raises(InvalidInputError) as caught:
        merge_frame(source, changing(table), ["id"], held=held, when_matched=summed)
    assert caught.value.kind in ("input-value", "expression")
    assert all_files(table) == before


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_concurrently_inserted_row_is_found(spark, new_catalog, held):
    table = create(new_catalog, "vectors")
    write(table, *FIRST)

    def insert(self, prepare):
        if len(table.snapshots()) == 1:
            write(table, ("a", 40, 1))
        return merging.FrameSource.insert(self, prepare)

    kind = type("Meddling", (merging.FrameSource,), {"insert": insert})
    source, target = frame_of(spark, SOURCE), changing(table)
    outcome = merge_frame(source, target, ["id"], kind=kind, held=held, when_matched=TAKEN)
    assert outcome.plans == 2
    assert [row for row in read(table) if row[1] == 40] == [("a", 40, 400)]


def test_small_sources_are_collected(spark, new_catalog, monkeypatch):
    schema = create(new_catalog, "rewrite").schema
    for most, is_held in ((len(SOURCE), True), (len(SOURCE) - 1, False)):
        monkeypatch.setattr(merging, "_HELD_ROWS", most)
        with closing(merging.FrameSource.of("t", schema, frame_of(spark, SOURCE), ["id"])) as held:
            held.predicate()
            assert (held._held is not None, held._rows is None) == (is_held, is_held)


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_file_source_is_read_by_its_tasks(spark, new_catalog, tmp_path, held):
    table = create(new_catalog, "rewrite")
    write(table, *FIRST)
    papq.write_table(SOURCE, tmp_path / "source.parquet")
    frame = spark.read.parquet(str(tmp_path / "source.parquet"))
    assert scanned_rows(frame) is not None
    outcome = merge_frame(frame, changing(table), ["id"], held=held, when_matched=TAKEN)
    assert (outcome.rows_matched, outcome.rows_inserted) == (3, 2)
    assert {row for row in read(table) if row[1] in (2, 3, 40)} == {
        ("a", 2, 200),
        ("b", 3, 300),
        ("a", 40, 400),
    }
