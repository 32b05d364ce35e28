"""Deleting and updating rows, in every kind of table."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, Table
from paimon_assets.engine import errors
from paimon_assets.engine.data.worker import run_task
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.types.data_types import bigint
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import READ_CHANGED
from tests.testkit import row_changing as kit
from tests.testkit.compacting import index_files_of
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.tables import new_table

NAN = float("nan")


def test_delete_then_update_then_delete_again(row_table):
    rows = [*kit.FIRST, *kit.SECOND]
    outcome = kit.changing(row_table).delete("v > 5 AND v < 9")
    rows = [row for row in rows if row[2] not in (6, 7, 8)]
    assert outcome.rows_matched == 3
    assert kit.read(row_table) == sorted(rows, key=repr)
    if "v" not in row_table.schema.options.get("sequence.field", ""):
        outcome = kit.changing(row_table).update({"v": parse_expression("v + 1")}, "id >= 21")
        assert (outcome.rows_matched, outcome.rows_written >= 3) == (3, True)
        rows = [(p, n, v + 1 if n >= 21 else v) for p, n, v in rows]
        assert kit.read(row_table) == sorted(rows, key=repr)
    outcome = kit.changing(row_table).delete("id BETWEEN 0 AND 3 OR id = 22")
    rows = [row for row in rows if row[1] not in (0, 1, 2, 3, 22)]
    assert outcome.rows_matched == 5
    assert kit.read(row_table) == sorted(rows, key=repr)
    kinds = {snapshot.commit_kind for snapshot in row_table.snapshots()[2:]}
    keyed = row_table.schema.has_primary_key
    assert kinds == {CommitKind.APPEND if keyed else CommitKind.OVERWRITE}
    kit.write(row_table, ("a", 2, 9))
    rows.append(("a", 2, 9))
    assert kit.read(row_table) == sorted(rows, key=repr)


def test_unknown_predicate_deletes_nothing(row_table):
    """Of nulls, neither `v <> 1` nor `NOT v <> 1` is true."""
    nulls = [row for row in (*kit.FIRST, *kit.SECOND) if row[2] is None]
    kit.changing(row_table).delete("NOT v = 1")
    assert kit.read(row_table) == sorted([*nulls, ("b", 1, 1)], key=repr)
    assert kit.changing(row_table).delete("v IN (7, NULL) OR v = NULL").snapshot is None
    assert kit.changing(row_table).delete("v IS NULL").rows_matched == len(nulls)
    assert kit.read(row_table) == [("b", 1, 1)]


def test_deleted_rows_can_be_inserted_again(row_table):
    assert kit.changing(row_table).delete("id >= 0").rows_matched == 16
    assert kit.read(row_table) == []
    if not row_table.schema.has_primary_key:
        assert row_table.state.live_files() == []
        assert index_files_of(row_table) == []
    kit.write(row_table, *kit.FIRST)
    assert kit.read(row_table) == sorted(kit.FIRST, key=repr)


def test_dry_run_counts_and_writes_nothing(row_table):
    before = kit.data_files(row_table)
    trying = kit.changing(row_table).with_dry_run()
    assert trying.delete("v > 5 AND v < 9").rows_matched == 3
    assert trying.delete("p = 'a'").rows_matched == 8
    assert kit.data_files(row_table) == before
    assert row_table.latest_snapshot().id == 2


def test_unmatched_change_commits_nothing(row_table):
    outcome = kit.changing(row_table).delete("id = 77")
    assert (outcome.snapshot, outcome.rows_matched) == (None, 0)
    assert row_table.latest_snapshot().id == 2


def test_repeated_change_commits_once(row_table):
    user = kit.changing(row_table).with_commit_user("ann").with_commit_identifier(7)
    first = user.with_properties({"why": "test"}).delete("id < 3")
    again = user.delete("id < 3")
    assert again.was_already_committed
    assert again.snapshot.id == first.snapshot.id
    assert first.snapshot.properties["why"] == "test"


def test_partitions_are_dropped_by_metadata(catalog):
    table = kit.create(catalog, "vectors")
    kit.write(table, *kit.FIRST)
    kit.changing(table).delete("id = 2 OR id = 3")
    names = kit.data_files(table)
    outcome = kit.changing(table).delete("p = 'a' OR p IS NULL")
    assert (outcome.rows_matched, outcome.files_added) == (5, 0)
    assert kit.data_files(table) == names
    assert {row[0] for row in kit.read(table)} == {"b"}
    assert kit.changing(table).delete("p = 'a'").snapshot is None


@pytest.mark.parametrize("where", ["p = 'a'", None])
def test_condition_holds_for_dropped_partitions(row_table, where):
    asked = []

    def refuse(latest):
        asked.append(latest.id)
        raise errors.CommitConflictError("changed", kind=READ_CHANGED)

    rows, newest = kit.read(row_table), row_table.latest_snapshot()
    with refused(errors.CommitConflictError, kind=READ_CHANGED):
        kit.changing(row_table).with_condition(refuse).delete(where)
    assert asked == [newest.id]
    assert (kit.read(row_table), row_table.latest_snapshot()) == (rows, newest)


def test_statistics_spare_opening_files(catalog):
    table = kit.create(catalog, "rewrite-bucketed")
    kit.write(table, *kit.FIRST)
    kit.write(table, *kit.SECOND)
    for entry in table.state.live_files():
        if entry.file.min_sequence_number and entry.file.row_count <= 2:
            Path(table.state.file_path(entry)).write_bytes(b"damaged")
    assert kit.changing(table).delete("id >= 20").rows_matched == 4
    assert kit.read(table) == sorted(kit.FIRST, key=repr)


@pytest.mark.parametrize(("kind", "expected"), [("rewrite", [2]), ("vectors", [1])])
def test_files_are_rewritten_in_parallel_and_marked_by_one_task(catalog, kind, expected):
    tasks = []

    class Counting(EmbeddedExecutor):
        def map_tasks(self, batch):
            tasks.append(len(batch.payloads))
            yield from super().map_tasks(batch)

    table = kit.create(catalog, kind)
    for first in (0, 10):
        kit.write(table, *(("a", first + n, n) for n in range(3)))
    assert kit.changing(table).delete("v = 1", Counting(1)).rows_matched == 2
    assert tasks == expected
    assert [row[1] for row in kit.read(table)] == [0, 10, 12, 2]


def test_files_with_nulls_or_nan_are_opened(catalog):
    table = new_table(catalog, {"id": "BIGINT", "x": "DOUBLE"})
    rows = pa.table({"id": [1, 2, None], "x": [1.0, float("nan"), 2.0]})
    table.new_write_builder().write(rows, kit.EXECUTOR)
    assert kit.changing(table).delete("id >= 1 AND id < 2").rows_matched == 1
    assert kit.changing(table).delete("x < 5").rows_matched == 1
    assert kit.changing(table).delete("id > 0").rows_matched == 1
    assert table.state.live_files() == []


def test_files_of_older_schema(catalog):
    for kind in ("rewrite", "vectors", "fixed"):
        catalog.drop_table("db.t", ignore_if_missing=True)
        table = kit.create(catalog, kind)
        kit.write(table, *kit.FIRST)
        renamed = sc.RenameColumn(field_names=("v",), new_name="w")
        table = table.alter([renamed, sc.AddColumn(field_names=("x",), data_type=bigint())])
        kit.changing(table).update({"x": parse_expression("w * 10")}, "w > 8")
        kit.changing(table).delete("x = 90 OR (x IS NULL AND w < 4)")
        found = {row[1]: row[2:] for row in kit.read(table)}
        assert found[11] == (11, 110)
        assert found[8] == (8, None)
        assert set(found) == {0, 4, 5, 6, 7, 8, 10, 11}


def test_update_sets_values(catalog):
    columns = {"id": "INT", "d": "DECIMAL(8, 2)", "f": "FLOAT", "t": "STRING", "day": "DATE"}
    table = catalog.create_table("db.t", Schema.of(columns))
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "d": pa.array(["1.50", None]).cast(pa.decimal128(8, 2)),
            "f": pa.array([1.5, 2.0], pa.float32()),
            "t": ["x", None],
            "day": pa.array([1, None], pa.date32()),
        }
    )
    table.new_write_builder().write(rows, kit.EXECUTOR)
    texts = {
        "id": "id + 1",
        "d": "round(coalesce(d, 2) * 1.1, 2)",
        "f": "-f * 0.5",
        "t": "t || '!'",
        "day": "coalesce(day, DATE '2024-01-31')",
    }
    kit.changing(table).update({name: parse_expression(text) for name, text in texts.items()}, None)
    found = table.to_arrow().to_pylist()
    assert [str(row["d"]) for row in found] == ["1.65", "2.20"]
    assert [row["f"] for row in found] == [-0.75, -1.0]
    assert [row["t"] for row in found] == ["x!", None]
    assert [str(row["day"]) for row in found] == ["1970-01-02", "2024-01-31"]
    assert [row["id"] for row in found] == [2, 3]
    kit.changing(table).update({"day": "2024-02-29", "t": None, "d": 7}, equal("id", 2))
    row = table.to_arrow(where="id = 2").to_pylist()[0]
    assert (str(row["day"]), row["t"], str(row["d"])) == ("2024-02-29", None, "7.00")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"v": "abc"}, "literal"),
        ({"v": parse_expression("id || 'x'")}, "expression"),
        ({"v": parse_expression("id / 2")}, "input-type"),
        ({"v": 2**31}, "input-value"),
        ({"v": parse_expression("v / (v - v)")}, "expression"),
        ({"id": 3}, "update-column"),
        ({"p": "c"}, "update-column"),
        ({}, "update-column"),
    ],
)
def test_invalid_update_values_are_refused(catalog, values, kind):
    table = kit.create(catalog, "fixed")
    kit.write(table, *kit.FIRST)
    before = kit.data_files(table)
    with refused(errors.InvalidInputError, kind=kind):
        kit.changing(table).update(values, "id > 3")
    assert kit.data_files(table) == before


def test_unknown_columns_are_refused(catalog):
    table = kit.create(catalog, "vectors")
    with pytest.raises(errors.NotFoundError):
        kit.changing(table).update({"nix": 3}, None)
    with pytest.raises(errors.NotFoundError):
        kit.changing(table).update({"v": parse_expression("nix + 1")}, None)
    with pytest.raises(errors.NotFoundError):
        kit.changing(table).delete("nix = 3")


def test_defaults_and_other_columns_stay_as_they_are(catalog):
    table = new_table(catalog, {"id": "BIGINT", "a": "INT", "b": "INT"}, options={})
    rows = pa.table({"id": [1, 2], "a": pa.array([None, 1], pa.int32()), "b": [1, 2]})
    table.new_write_builder().write(rows, kit.EXECUTOR)
    kit.changing(table).update({"b": 9}, "id = 1")
    assert kit.read(table) == [(1, None, 9), (2, 1, 2)]


@pytest.mark.parametrize(
    ("options", "verbs"),
    [
        ({"merge-engine": "first-row", "write-only": "true"}, "du"),
        ({"merge-engine": "aggregation"}, "du"),
        ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, "u"),
        ({"merge-engine": "partial-update"}, "d"),
        ({"ignore-delete": "true"}, "d"),
        ({"sequence.field": "v", "sequence.auto-padding": "row-kind-flag"}, "d"),
    ],
)
def test_unsupported_tables_refuse_changes(catalog, options, verbs):
    table = kit.create(catalog, "fixed", **options)
    kit.write(table, *kit.SECOND, ("a", 3, 3), ("b", 4, 4))
    visible = kit.read(table)
    if "d" in verbs:
        with refused(errors.UnsupportedFeatureError, kind="row-delete"):
            kit.changing(table).delete("id = 3")
    else:
        kit.changing(table).delete("id = 3")
        assert kit.read(table) == [row for row in visible if row[1] != 3]
    if "u" in verbs:
        with refused(errors.UnsupportedFeatureError, kind="row-update"):
            kit.changing(table).update({"v": 3}, "id = 4")


def test_partial_updates_take_values_but_no_nulls(catalog):
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = kit.create(catalog, "fixed", **options)
    kit.write(table, *kit.FIRST)
    kit.changing(table).update({"v": 77}, "id = 4")
    kit.changing(table).delete("id = 3")
    found = {row[1]: row[2] for row in kit.read(table)}
    assert found[4] == 77
    assert 3 not in found
    with refused(errors.UnsupportedFeatureError, kind="row-update"):
        kit.changing(table).update({"v": None}, "id = 4")


def test_uncompacted_rows_are_changed(catalog):
    table = kit.create(catalog, "fixed", **kit.DV, **{"write-only": "true"})
    kit.write(table, *kit.FIRST)
    with refused(errors.UnsupportedFeatureError, kind="rows-wait"):
        kit.changing(table).delete("id = 3")


def test_postponed_rows_are_changed(catalog):
    fixed = {"postpone.batch-write-fixed-bucket": "true", "postpone.default-bucket-num": "2"}
    table = kit.create(catalog, "fixed", bucket="-2", **fixed)
    kit.write(table, *kit.FIRST)
    kit.changing(table).delete("v < 5")
    kit.changing(table).update({"v": 50}, "id = 5")
    found = {row[1]: row[2] for row in kit.read(table)}
    assert found == {0: None, 5: 50, 10: None, **{n: n for n in (6, 7, 8, 9, 11)}}
    kit.write(table.copy({"postpone.batch-write-fixed-bucket": "false"}), ("a", 20, 20))
    with refused(errors.UnsupportedFeatureError, kind="rows-wait"):
        kit.changing(table).delete("id = 20")


def test_foreign_files_are_never_changed(catalog, tmp_path):
    table = catalog.create_table("db.t", Schema.of(kit.COLUMNS))
    folder = tmp_path / "landing"
    folder.mkdir()
    for number, rows in enumerate((kit.FIRST, kit.SECOND)):
        pq.write_table(kit.arrow(*rows), folder / f"{number}.parquet")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    table.segments().add(SegmentSource(path=str(folder), format="parquet"), kit.EXECUTOR)
    kit.changing(table).delete("id >= 20")
    kit.changing(table).update({"v": 1}, "id < 2")
    assert [row[1] for row in kit.read(table) if row[2] == 1] == [0, 1]
    assert len(kit.read(table)) == len(kit.FIRST)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert [tag.name for tag in table.tags.list() if tag.name.startswith("__segment_hold_")]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.csv").write_text("p,id,v\na,77,7\n")
    table.segments().add(SegmentSource(path=str(texts), format="csv"), kit.EXECUTOR)
    with refused(errors.UnsupportedFeatureError, kind="segment-mixed-formats"):
        kit.changing(table).delete("id = 3")


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("p = 0.0", [-3.0, -0.0, 1.5, NAN]),
        ("p <> 0.0", [0.0]),
        ("p > 1.0", [-3.0, -0.0, 0.0]),
        ("p NOT IN (0.0, 1.5)", [0.0, 1.5]),
    ],
)
def test_partitions_of_floats_are_dropped_one_by_one(catalog, where, left):
    table = new_table(catalog, {"v": "INT", "p": "DOUBLE"}, name="db.floats", partition_keys=["p"])
    values = [-3.0, -0.0, 0.0, 1.5, NAN]
    rows = pa.table({"v": pa.array(range(5), pa.int32()), "p": values})
    table.new_write_builder().write(rows, kit.EXECUTOR)
    table.new_row_change_builder().delete(where, kit.EXECUTOR)
    found = table.new_read_builder().to_arrow(kit.EXECUTOR).sort_by("v").column("p").to_pylist()
    assert list(map(str, found)) == list(map(str, left))


INTS = pa.schema({"id": pa.int32(), "v": pa.int32()})


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_rows_are_updated_beside_null_row_whose_fields_are_required(catalog, file_format):
    """Found by the differential fuzz: seed 702, table 134."""
    options = {"file.format": file_format}
    table = catalog.create_table("db.inner", Schema.of({"id": "INT", "v": "INT"}, options=options))
    table.new_write_builder().write(pa.table({"id": [1, 2], "v": [1, 1]}).cast(INTS))
    table = table.alter([sc.add_column("more", "ROW<r ROW<x INT NOT NULL>>")])
    table.new_row_change_builder().update({"v": 9}, "id = 2")
    rows = table.to_arrow().sort_by("id").to_pylist()
    assert [(row["v"], row["more"]) for row in rows] == [(1, None), (9, None)]


def test_concurrent_appends(row_table):
    def append():
        kit.write(row_table, ("a", 100, 1), ("b", 101, 7))

    assert kit.changing(row_table).delete("v = 7", kit.Meddling(append)).rows_matched in (1, 2)
    left = {row[1] for row in kit.read(row_table)}
    assert 7 not in left
    assert 100 in left


def test_concurrent_changes_of_same_rows(row_table):
    names = kit.data_files(row_table)

    def delete():
        kit.changing(row_table).delete("id = 6")

    def update():
        kit.changing(row_table).delete("id = 8")
        kit.write(row_table, ("a", 8, 99))

    outcome = kit.changing(row_table).delete("v BETWEEN 6 AND 8", kit.Meddling(delete, update))
    assert outcome.plans == 3
    assert outcome.rows_matched == 1
    found = {row[1]: row[2] for row in kit.read(row_table)}
    assert not {6, 7} & set(found)
    assert found[8] == 99
    live = {entry.file.file_name for entry in row_table.state.live_files()}
    # Files of older snapshots are left, no orphans of ours.
    assert len(kit.data_files(row_table) - names - live) <= 10


def test_concurrent_compaction_and_delete(row_table):
    def compact():
        row_table.new_compaction_builder().with_strategy("full").run(kit.EXECUTOR)

    kit.changing(row_table).delete("id = 4")
    kit.changing(row_table).delete("v BETWEEN 6 AND 8", kit.Meddling(compact))
    left = {row[1] for row in kit.read(row_table)}
    assert left == {0, 1, 2, 3, 5, 9, 10, 11, 20, 21, 22, 23}
    compact()
    assert {row[1] for row in kit.read(row_table)} == left


def test_change_gives_up_after_retries(catalog):
    table = kit.create(catalog, "fixed")
    kit.write(table, *kit.FIRST)

    def meddle():
        kit.write(table, ("a", 6, 6), ("b", 7, 7))

    with refused(errors.CommitConflictError, kind="bucket-changed"):
        hasty = table.copy({"commit.max-retries": "4"})
        kit.changing(hasty).delete("id > 5", kit.Meddling(*[meddle] * 5))
    assert {row[1] for row in kit.read(table)} == set(range(12))


class Failing(EmbeddedExecutor):
    """Runs tasks on a storage whose i-th call fails."""

    def __init__(self, call):
        super().__init__(1)
        self.file_io = FaultyFileIO(LocalFileIO(), faults={call: Fault.FAIL})

    def map_tasks(self, batch):
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, self.file_io)


@pytest.mark.parametrize("kind", ["vectors-64", "plain", "logged"])
def test_task_that_fails_leaves_no_files(catalog, kind):
    table = kit.create(catalog, "vectors-64" if kind == "plain" else kind)
    if kind == "plain":
        table = table.copy({"deletion-vectors.enabled": "false"})
    kit.write(table, *kit.FIRST)
    kit.write(table, *kit.SECOND)
    if kind != "logged":
        kit.changing(table).delete("id = 2")
    files, rows = kit.all_files(table), kit.read(table)
    for call in range(100):
        executor = Failing(call)
        try:
            kit.changing(table).update({"p": "x"}, "id > 4", executor)
        except errors.StorageError:
            assert kit.read(table) == rows
            assert kit.all_files(table) == files
            continue
        assert not executor.file_io.fired
        break
    assert call >= 4
    assert sum(row[0] == "x" for row in kit.read(table)) == 11


def test_commit_that_fails_leaves_no_files(catalog):
    table = kit.create(catalog, "vectors")
    kit.write(table, *kit.FIRST)
    files = kit.all_files(table)
    for pattern in ("manifest-list-*", "index-manifest-*", "snapshot-*"):
        store = type(table._store)(
            file_io=FaultyFileIO(LocalFileIO(), fail_on=pattern),
            table_path=table.path,
            schema=table.schema,
        )
        with pytest.raises(errors.StorageError):
            kit.changing(Table(store)).delete("id = 4 OR id = 5")
        assert kit.all_files(table) == files


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_rows_whose_bytes_became_text_can_be_changed(catalog, keys):
    """A column that was BYTES holds any bytes; only new values must be texts."""
    catalog.create_database("any")
    schema = Schema.of({"id": "BIGINT", "b": "BYTES", "n": "INT"}, primary_keys=keys)
    table = catalog.create_table("any.bytes", schema)
    rows = {"id": [1, 2, 3], "b": [b"\xff\xfe", b"\xff", b"ok"], "n": [0, 0, 0]}
    table.new_write_builder().write(pa.table(rows))
    table = table.alter([sc.update_column_type("b", "STRING")])
    kit.changing(table).update({"n": 7}, equal("id", 2))
    kit.changing(table).delete(equal("id", 1))
    found = table.to_arrow().sort_by("id")
    assert found["b"].cast(pa.binary()).to_pylist() == [b"\xff", b"ok"]
    assert found["n"].to_pylist() == [7, 0]
