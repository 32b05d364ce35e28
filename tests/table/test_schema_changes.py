"""Schema changes through the API: checked first, committed once, while other writers commit."""

import logging

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import EmbeddedExecutor, Schema
from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.table.schema_changes import change_made_since
from tests.testkit import tables
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.tables import new_table

EMBEDDED = EmbeddedExecutor()
KEYED = Schema.of({"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"})


def rows(**columns):
    """Whole numbers are INT, anything else is a text."""
    arrays = {}
    for name, values in columns.items():
        is_text = any(isinstance(value, str) for value in values)
        arrays[name] = pa.array(values, pa.string() if is_text else pa.int32())
    return pa.table(arrays)


def write(table, **columns):
    return table.new_write_builder().write(rows(**columns))


def read(table, where=None):
    return tables.read(table, where=where)


@pytest.fixture
def table(catalog):
    made = new_table(catalog, KEYED)
    write(made, k=[1, 2], v=[10, 300])
    return made


def test_table_is_altered_by_name_or_object(catalog, table):
    assert catalog.alter_table("db.t", [sc.rename_column("v", "w")]).schema.field_names == (
        "k",
        "w",
    )
    again = catalog.get_table("db.t", options={"read.batch-size": "10"})
    altered = again.alter([sc.add_column("x", "STRING")])
    assert altered.schema.field_names == ("k", "w", "x")
    assert altered.schema.options["read.batch-size"] == "10"
    assert "read.batch-size" not in altered.schemas()[-1].options
    assert read(altered) == [(1, 10, None), (2, 300, None)]


def test_reader_opened_before_change_is_unaffected(catalog, table):
    builder = table.new_read_builder()
    table.alter([sc.drop_column("v"), sc.add_column("v", "STRING")])
    assert builder.to_arrow().to_pylist() == [{"k": 1, "v": 10}, {"k": 2, "v": 300}]
    assert read(catalog.get_table("db.t")) == [(1, None), (2, None)]


def test_writer_opened_before_change_commits_old_schema(catalog, table):
    builder = table.new_write_builder()
    altered = table.alter([sc.update_column_type("v", "STRING"), sc.rename_column("v", "w")])
    outcome = builder.write(rows(k=[2, 3], v=[7, 8]))
    newest = table.state.live_files()[-1].file
    assert (newest.schema_id, outcome.snapshot.schema_id) == (0, 1)
    assert read(altered) == [(1, "10"), (2, "7"), (3, "8")]
    assert read(altered, "w = '8'") == [(3, "8")]
    write(altered, k=[1], w=["x"])
    assert read(catalog.get_table("db.t")) == [(1, "x"), (2, "7"), (3, "8")]


def test_statistics_decide_without_reading_file(catalog, table):
    file_io = FaultyFileIO(LocalFileIO(), fail_on="*.parquet")
    watched = type(table)(_store_with(table, file_io))
    plan = watched.plan_alter([sc.update_column_type("v", "SMALLINT")], executor=EMBEDDED)
    [column] = plan.columns
    assert not plan.loses
    assert (column.files_kept, column.files_read, column.rows) == (1, 0, 2)
    plan = watched.plan_alter([sc.update_column_type("v", "TINYINT")], executor=EMBEDDED)
    [column] = plan.columns
    assert (column.counts, column.is_exact) == ({Loss.OVERFLOW: 1}, False)
    assert [example.lost.value for example in column.examples] == ["300"]


def _store_with(table, file_io):
    return replace(table._store, file_io=file_io)


def test_hidden_rows_count_too(table):
    write(table, k=[2], v=[3])
    assert read(table) == [(1, 10), (2, 3)]
    assert table.plan_alter([sc.update_column_type("v", "TINYINT")]).loses


def test_values_are_checked_by_their_written_type(catalog):
    table = new_table(catalog, {"v": "INT"}, name="db.s")
    write(table, v=[1, 2])
    table = table.alter([sc.update_column_type("v", "STRING")])
    write(table, v=["3", "x"])
    [column] = table.plan_alter([sc.update_column_type("v", "INT")]).columns
    assert (column.files_kept, column.files_read, column.counts) == (1, 1, {Loss.FAILED: 1})
    plan = table.plan_alter([sc.update_column_type("v", "DATE")])
    [column] = plan.columns
    assert column.counts[Loss.FAILED] == 3, "INT never becomes DATE, '3' does, 'x' does not"
    assert "any INT" in {example.lost.value for example in column.examples}
    altered = table.alter([sc.update_column_type("v", "DATE")])
    with pytest.raises(errors.UnsupportedFeatureError, match="INT"):
        altered.to_arrow()


def test_forbidden_nulls_are_counted(catalog):
    options = {"alter-column-null-to-not-null.disabled": "false"}
    table = new_table(catalog, {"k": "INT", "v": "INT"}, name="db.n", options=options)
    write(table, k=[1, 2, 3], v=[1, None, None])
    changes = [sc.update_column_nullability("v", nullable=False)]
    [column] = table.plan_alter(changes).columns
    assert (column.counts, column.cast) == ({Loss.FORBIDDEN: 2}, "none")
    with pytest.raises(errors.InvalidInputError, match="2 null"):
        table.alter_checked(changes)
    assert not table.plan_alter([sc.update_column_nullability("k", nullable=False)]).loses
    table = table.alter([sc.add_column("x", "INT")])
    [column] = table.plan_alter([sc.update_column_nullability("x", nullable=False)]).columns
    assert column.counts == {Loss.FORBIDDEN: 3}


def test_loss_check_follows_cast_dialect(catalog):
    for dialect, lost in (("java", True), ("cpp", False)):
        schema = Schema.of({"v": "STRING"}, options={"cast.dialect": dialect})
        table = new_table(catalog, schema, name=f"db.{dialect}")
        write(table, v=["abc"])
        assert table.plan_alter([sc.update_column_type("v", "VARCHAR(2)")]).loses is lost


def test_loss_is_refused_or_allowed(table):
    change = [sc.update_column_type("v", "TINYINT")]
    with pytest.raises(errors.InvalidInputError, match="300") as caught:
        table.alter_checked(change)
    assert caught.value.kind == "schema-overflow"
    assert caught.value.details["column"] == "v"
    assert len(table.schemas()) == 1
    table.alter_checked(change, on_overflow=sc.OnOverflow.ALLOW)
    assert read(table.refresh()) == [(1, 10), (2, 44)]


def test_rows_written_during_check_are_checked_again(table):
    plans = []

    def judge(plan):
        plans.append(plan)
        if len(plans) == 1:
            write(table, k=[9], v=[70_000])

    with pytest.raises(errors.InvalidInputError, match="70000"):
        table.alter_checked([sc.update_column_type("v", "SMALLINT")], judged=judge)
    assert [plan.loses for plan in plans] == [False, True]


def test_schema_changed_during_check_is_checked_again(table):
    plans = []

    def judge(plan):
        plans.append(plan)
        if len(plans) == 1:
            table.alter([sc.add_column("x", "INT")])

    made = table.alter_checked([sc.rename_column("v", "w")], judged=judge)
    assert (len(plans), made.new.id) == (2, 2)
    assert table.refresh().schema.field_names == ("k", "w", "x")


def test_schema_change_gives_up_after_lost_races(table):
    def judge(plan):
        write(table, k=[plan.snapshot_id], v=[1])

    with pytest.raises(errors.CommitConflictError, match="fewer writers"):
        table.alter_checked([sc.update_column_type("v", "BIGINT")], judged=judge)


def test_repeated_change_is_found(table):
    changes = [sc.add_column("x", "INT"), sc.set_option("write-only", "true")]
    assert change_made_since(table.state.store, changes, 0) is None
    table.alter(changes)
    made = change_made_since(table.state.store, changes, 0)
    assert made is not None
    assert made.id == 1
    assert change_made_since(table.state.store, changes, made.time_millis + 1) is None
    assert change_made_since(table.state.store, [sc.add_column("y", "INT")], 0) is None


def test_keys_are_refused_types(catalog):
    schema = Schema.of(
        {"p": "INT", "k": "INT", "v": "INT"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "1"},
    )
    table = new_table(catalog, schema, name="db.keys")
    for name in ("p", "k"):
        with pytest.raises(errors.InvalidInputError, match=f"column '{name}' cannot change"):
            table.plan_alter([sc.update_column_type(name, "BIGINT")])


def test_default_is_filled_in_by_later_writes(table):
    altered = table.alter([sc.update_column_default_value("v", "5")])
    write(altered, k=[3], v=[None])
    assert read(altered) == [(1, 10), (2, 300), (3, 5)]


def test_empty_table_allows_lossy_change(tmp_path):
    table = new_table(tmp_path / "other", KEYED)
    plan = table.plan_alter([sc.update_column_type("v", "TINYINT")])
    assert (plan.loses, plan.snapshot_id) == (False, 0)


@pytest.mark.parametrize("time", ["BIGINT", "VARCHAR(9)", "TIMESTAMP(3)"])
def test_maps_are_merged_by_time_that_java_reads(catalog, time):
    options = {
        "merge-engine": "aggregation",
        "fields.m.aggregate-function": "merge_map_with_keytime",
    }
    columns = {"k": "INT", "m": f"MAP<STRING, ROW<v INT, t {time}>>"}
    schema = Schema.of(columns, primary_keys=["k"], options=options)
    if time.startswith("VARCHAR"):
        catalog.create_table("db.t", schema)
        return
    with pytest.raises(errors.InvalidInputError, match="orders by field 't'"):
        catalog.create_table("db.t", schema)


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"])
@pytest.mark.parametrize("legacy", ["true", "false"])
def test_folder_names_are_same_in_every_zone(catalog, kind, legacy):
    options = {"partition.legacy-name": legacy}
    schema = Schema.of({"v": "INT", "p": kind}, partition_keys=["p"], options=options)
    if legacy == "true" or kind == "TIMESTAMP(3)":
        catalog.create_table("db.t", schema)
        return
    with pytest.raises(errors.InvalidInputError, match="time zone of the process"):
        catalog.create_table("db.t", schema)
    table = catalog.create_table("db.t", replace(schema, options={})).copy(options)
    with pytest.raises(errors.UnsupportedFeatureError, match="zone of each process"):
        table.new_write_builder().write(pa.table({"v": [1], "p": [None]}))


@pytest.mark.parametrize("element", ["INT", "STRING"])
def test_avro_multiset_has_only_texts(catalog, element):
    schema = Schema.of({"m": f"MULTISET<{element}>"}, options={"file.format": "avro"})
    rows = pa.table({"m": pa.array([None], to_arrow_type(schema.fields[0].type))})
    if element == "STRING":
        catalog.create_table("db.t", schema).new_write_builder().write(rows)
        return
    with pytest.raises(errors.InvalidInputError, match="Java cannot read"):
        catalog.create_table("db.t", schema)
    table = catalog.create_table("db.t", replace(schema, options={})).copy(schema.options)
    with pytest.raises(errors.UnsupportedFeatureError, match="Java reads no file"):
        table.new_write_builder().write(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "avro"},
        {"file.format.per.level": "0:avro,5:orc"},
        {"changelog-file.format": "avro", "changelog-producer": "input"},
        {"bucket": "-2"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_with_avro_refuse_multiset_of_numbers(catalog, options):
    columns = {"k": "INT", "m": "ARRAY<ROW<x MULTISET<INT>>>"}
    schema = Schema.of(columns, primary_keys=["k"], options={"bucket": "1"})
    refused = replace(schema, options={"bucket": "1", **options})
    with pytest.raises(
        errors.InvalidInputError, match=f"'m' holds MULTISET<INT>.*'{next(iter(options))}'"
    ):
        catalog.create_table("db.t", refused)
    table = new_table(catalog, replace(refused, fields=schema.fields[:1]))
    with pytest.raises(errors.InvalidInputError, match="MULTISET<INT>"):
        table.alter([sc.add_column("m", columns["m"])])
    table = new_table(catalog, schema, name="db.later")
    with pytest.raises(errors.InvalidInputError, match="MULTISET<INT>"):
        table.alter([sc.set_option(key, value) for key, value in options.items()])
    if "bucket" not in options:
        rows = pa.table(
            [pa.array([1], pa.int32()), pa.nulls(1, to_arrow_type(table.schema.fields[1].type))],
            ["k", "m"],
        )
        with pytest.raises(errors.UnsupportedFeatureError, match="Java reads no file"):
            table.copy(options).new_write_builder().write(rows)


def test_listagg_refuses_text_of_fixed_length(catalog):
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}
    schema = Schema.of({"k": "INT", "v": "VARCHAR(5)"}, primary_keys=["k"], options=options)
    with pytest.raises(errors.InvalidInputError, match="listagg, which takes STRING"):
        catalog.create_table("db.lists", schema)


def test_option_values_become_texts(catalog):
    options = {"bucket": 2, "ignore-delete": True, "scan.manifest.parallelism": "3"}
    table = new_table(catalog, {"k": "INT"}, name="db.n", primary_keys=["k"], options=options)
    table.alter([sc.set_option("snapshot.num-retained.max", 20)])
    assert catalog.get_table("db.n").schema.options == {
        "bucket": "2",
        "ignore-delete": "true",
        "scan.manifest.parallelism": "3",
        "snapshot.num-retained.max": "20",
    }
    with pytest.raises(errors.InvalidInputError, match="'bucket' has the value None"):
        Schema.of({"k": "INT"}, options={"bucket": None})


def test_unreadable_schema_is_not_published(catalog):
    schema = replace(Schema.of({"k": "INT"}), options={"num-sorted-run.max": 2})
    with pytest.raises(errors.PaimonError):
        catalog.create_table("db.n", schema)
    assert catalog.list_tables("db") == []


def schema_with(**options):
    return Schema.of({"id": "INT"}, options=options)


def test_table_with_wrong_option_is_not_created(new_catalog):
    with pytest.raises(errors.InvalidInputError, match=r"'file\.format' has the value 'xyz'"):
        new_catalog.create_table("db.t", schema_with(**{"file.format": "xyz"}))
    with pytest.raises(errors.NotFoundError):
        new_catalog.get_table("db.t")


def test_option_is_not_set_to_wrong_value(new_catalog):
    table = new_table(new_catalog, schema_with())
    for change in ("file.format", "xyz"), ("snapshot.num-retained.max", "5"), ("bucket", "two"):
        with pytest.raises(errors.InvalidInputError, match=change[0]):
            table.alter([sc.set_option(*change)])
    assert new_catalog.get_table("db.t").schema.id == 0


def test_option_with_dependents_is_not_removed(new_catalog):
    keeping = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "5"}
    table = new_table(new_catalog, schema_with(**keeping))
    with pytest.raises(errors.InvalidInputError, match="= 10 must not be above"):
        table.alter([sc.remove_option("snapshot.num-retained.min")])
    table.alter([sc.remove_option(key) for key in keeping])


def test_unknown_option_warns_once_and_is_kept(new_catalog, caplog):
    with caplog.at_level(logging.WARNING):
        table = new_table(new_catalog, schema_with(bucke="1", mine="2"))
        table = table.alter([sc.set_option("file-format", "orc")])
    hints = [record.getMessage() for record in caplog.records]
    assert ["'bucke'" in hints[0], "did you mean 'bucket'" in hints[0]] == [True, True]
    assert hints[1].endswith("do nothing here are stored for other engines: mine")
    assert ["'file-format'" in hints[2], "did you mean 'file.format'" in hints[2]] == [True, True]
    assert len(hints) == 3
    assert table.schema.options == {"bucke": "1", "mine": "2", "file-format": "orc"}


@pytest.mark.parametrize("keys", ["primary_keys", "partition_keys"])
def test_key_without_column_is_refused(keys):
    with pytest.raises(
        errors.InvalidInputError, match=r"'idd' is not a column of the table; it has id"
    ):
        Schema.of({"id": "INT", "v": "INT"}, **{keys: ["idd"]})


def test_changes_may_be_documents(catalog):
    table = new_table(catalog, {"a": "INT", "b": "STRING"}, name="db.documents")
    changes = [
        {"action": "addColumn", "fieldNames": ["c"], "dataType": "DATE"},
        {"action": "dropColumn", "fieldNames": ["b"]},
    ]
    assert table.plan_alter(changes).new.field_names == ("a", "c")
    assert table.alter(changes).schema.field_names == ("a", "c")
    with pytest.raises(errors.InvalidInputError, match="dropTable"):
        table.alter([{"action": "dropTable"}])
    plan = table.refresh().alter_checked([{"action": "updateComment", "comment": "x"}])
    assert plan.new.comment == "x"
