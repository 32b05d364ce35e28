"""Refusals of assets, jobs and checks, each with its way out taken."""

# mypy: disable-error-code="arg-type,call-overload,untyped-decorator"

import datetime as dt
import re
from functools import partial

import dagster as dg
import pandera.pyarrow as pandera
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import PaimonError, Schema
from paimon_assets import assets as pas
from paimon_assets.assets.resource import parse_settings
from paimon_assets.cdc import ChangeLog, build_change_log_asset
from paimon_assets.columns import build_rows_behind_check, column_asset
from paimon_assets.sql import build_operation_job
from tests.testkit.asset_tables import asset_of, failure_text, job_run
from tests.testkit.io_manager_runs import io_run
from tests.testkit.tables import new_table
from tests.testkit.ways import Place, take, ways

PAIR = {"id": "BIGINT", "day": "STRING"}
PLAIN, KEYED = Schema.of(PAIR), Schema.of(PAIR, primary_keys=["id"])
BY_DAY = Schema.of(PAIR, partition_keys=["day"])
ROWS = pa.table({"id": [1], "day": ["a"]})
DAYS = dg.StaticPartitionsDefinition(["a", "b"])
DAILY = dg.DailyPartitionsDefinition("2024-01-01")
HOURS = dg.HourlyPartitionsDefinition("2024-01-01-00:00")
GRID = dg.MultiPartitionsDefinition({"x": DAYS, "y": DAYS})
DYNAMIC = dg.DynamicPartitionsDefinition(name="days")


def run(at, *assets, **options):
    """Materialize, and raise the error of the step that fails."""
    return expect_success(io_run(list(assets), at.paimon, **options))


def expect_success(result):
    if not result.success:
        [event] = [each for each in result.all_events if each.is_step_failure]
        metadata = event.step_failure_data.user_failure_data.metadata
        raise PaimonError(failure_text(result), kind=metadata["paimon/error_kind"].value)
    return result


class AssetPlace(Place):
    """A folder, a warehouse in it, and the resource of that."""

    @property
    def paimon(self):
        return pas.PaimonCatalogResource(warehouse=str(self.path / "w"), executor="embedded")


def plain(schema=PLAIN, rows=ROWS, name="db.t", **options):
    return asset_of(name, schema, rows, **options)


def days(schema=BY_DAY, rows=ROWS, **options):
    chosen = {"partitions_def": DAYS, "partition_column": "day", **options}
    return plain(schema, rows, **chosen)


def run_of(*assets, **options):
    """Return a call that runs assets."""
    return lambda at: run(at, *assets, **options)


def definition(*arguments, **options):
    """Return a call that defines an asset."""
    return lambda _: plain(*arguments, **options)


def check_run(build, asset=None, **options):
    """Return a call that runs an asset and its check."""
    return lambda at: run(at, asset or plain(), build(asset or plain(), **options))


def stored_asset(metadata, rows=ROWS, **options):
    """Return an asset of Dagster's that the IO manager stores."""
    return dg.asset(name="t", key_prefix="db", metadata=metadata, **options)(lambda: rows)


def consume(mode, **options):
    """Return assets of which one reads the other as a consumer."""
    column = {"partition_column": "day"} if options else {}
    metadata = pas.paimon_output(**mode, **column)

    rows = dg.AssetIn(["db", "t"], metadata=pas.paimon_input(consumer="c"))

    @dg.asset(key_prefix="db", metadata=metadata, ins={"rows": rows}, **options)
    def follower(rows: pa.Table) -> pa.Table:
        return rows

    return [stored_asset(pas.paimon_output(**column), **options), follower]


def landing(at, name="1.parquet", rows=ROWS):
    folder = at.path / "landing"
    folder.mkdir(exist_ok=True)
    if not (folder / name).exists():
        pq.write_table(rows, folder / name)
    return folder


def ingest(at, schema=PLAIN, rows=ROWS, folder=None, **source):
    files = pas.FileSource(folder=str(folder or landing(at, rows=rows)), **source)
    return pas.build_file_ingestion_asset("db.t", schema, source=files)


def ingest_run(schema=PLAIN, rows=ROWS, *, config=None, **source):
    configured = dg.RunConfig(ops={"db__t": pas.IngestConfig(**config)}) if config else None
    return lambda at: run(at, ingest(at, schema, rows, **source), run_config=configured)


def columns(**options):
    chosen = {"columns": {"n": "BIGINT"}, "reads": ["id"], **options}

    def define(_=None):
        @column_asset("db.t", **chosen)
        def numbers(rows: pa.Table) -> pa.Table:
            return pa.table({"n": rows["id"]})

        return numbers

    return define


def add_numbers(at, **options):
    ids = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    at.once("t", lambda: new_table(at.catalog, {**PAIR, "n": "BIGINT"}, (1, "a", 2), options=ids))
    return run(at, columns(**options)())


def replace_file(at):
    """Ingest a file, write another in its place, and ingest again."""
    run(at, ingest(at))
    file = landing(at) / "1.parquet"
    file.rename(at.path / "before")
    pq.write_table(pa.concat_tables([ROWS, ROWS]), file)
    run(at, ingest(at))


def restore_file(at):
    (at.path / "before").rename(landing(at) / "1.parquet")
    landing(at, "2.parquet")
    run(at, ingest(at))
    assert at.catalog.get_table("db.t").count() == 2


def job(build, op, config):
    def call(at):
        at.once("t", lambda: run(at, plain()))
        return expect_success(job_run(build(["db.t"]), op, config, at.paimon))

    return call


def window_run(kind, definition, key):
    """Return a call that appends the window of a key."""
    schema = Schema.of({"day": kind})
    rows = pa.table({"day": [dt.datetime(2024, 1, 1, 1, 30, tzinfo=dt.UTC)]})
    cast = rows.cast(pa.schema([("day", pa.date32())])) if kind == "DATE" else rows
    asset = days(schema, cast, name=f"db.{kind[:4]}", partitions_def=definition, mode="append")
    return lambda at: run(at, asset, partition_key=key)


@dg.asset(ins={"rows": dg.AssetIn(["db", "t"])}, key_prefix="db")
def reader(rows: pa.Table) -> pa.Table:
    return rows


UNIQUE = pandera.DataFrameSchema({"id": pandera.Column(int, unique=True)})
VALID = pandera.DataFrameSchema({"id": pandera.Column(int)})
SEQUENCED = Schema.of(PAIR, primary_keys=["id"], options={"sequence.field": "day"})
WAYS = [
    ("asset-options", "needs both partitions_def and partition_column, or neither",
     columns(partitions_def=DAYS), columns(partitions_def=DAYS, partition_column="day")),
    ("asset-options", "pass one that is",
     lambda _: build_rows_behind_check(plain()),
     lambda _: build_rows_behind_check(columns()())),
    ("asset-table", "@paimon_asset('database.table', primary_keys='id')",
     lambda _: pas.paimon_asset(lambda: ROWS),
     lambda _: pas.paimon_asset("db.t", primary_keys="id")(lambda: ROWS)),
    ("asset-table", "or a key that ends in database and table",
     lambda _: pas.build_row_count_check(dg.asset(name="t")(lambda: ROWS), 1),
     lambda _: pas.build_row_count_check(stored_asset({}), 1)),
    ("argument", "takes 'tables' as Sequence",
     lambda _: pas.build_compaction_job(5), lambda _: pas.build_compaction_job(["db.t"])),
    ("table-pattern", "leave 'tables' of the job out",
     lambda _: pas.build_compaction_job(["db.*"]), lambda _: pas.build_compaction_job()),
    ("asset-table", "Give one of them another table",
     lambda _: pas.refuse_shared_tables([plain(), plain(key=["other", "t"])]),
     lambda _: pas.refuse_shared_tables([plain(), plain(name="db.u")])),
    ("check-asset", "hand them to it as before_commit=, and leave asset None",
     lambda _: pas.build_pandera_checks(plain(), VALID, when="before_commit"),
     run_of(plain(before_commit=pas.build_pandera_checks(None, VALID, when="before_commit")))),
    ("check-asset", "needs the asset it is of",
     lambda _: pas.build_pandera_checks(None, VALID),
     lambda _: pas.build_pandera_checks(plain(), VALID)),
    ("check-bounds", "needs the expected number of rows, or minimum, maximum or both",
     check_run(pas.build_row_count_check), check_run(pas.build_row_count_check, minimum=1)),
    ("check-bounds", "needs at least 3 runs",
     check_run(pas.build_row_count_anomaly_check, runs=2),
     check_run(pas.build_row_count_anomaly_check, runs=3)),
    ("check-columns", "name the columns that must be unique",
     check_run(pas.build_unique_key_check), check_run(pas.build_unique_key_check, columns=["id"])),
    ("check-columns", "has no 'sequence.field'",
     check_run(pas.build_sequence_check, plain(KEYED)),
     check_run(pas.build_sequence_check, plain(SEQUENCED, name="db.u"))),
    ("check-partitions", "Declare both, or leave by_partition out",
     check_run(partial(pas.build_row_count_check, minimum=1),
             options=pas.CheckOptions(by_partition=True)),
     check_run(partial(pas.build_row_count_check, minimum=1))),
    ("check-schema", "expected a DataFrameSchema or DataFrameModel",
     check_run(pas.build_pandera_checks, schema=PAIR),
     check_run(pas.build_pandera_checks, schema=VALID)),
    ("check-schema", "use build_unique_key_check for them",
     check_run(pas.build_pandera_checks, schema=UNIQUE),
     check_run(pas.build_unique_key_check, columns=["id"])),
    ("column-lineage", "which is no column of table db.t: id, day",
     definition(pass_through={dg.AssetKey("up"): ["x"]}),
     definition(pass_through={dg.AssetKey("up"): ["id"]})),
    ("compaction-config", "the strategy sort and sort_columns go together",
     job(pas.build_compaction_job, "compact", pas.CompactionConfig(strategy="sort")),
     job(pas.build_compaction_job, "compact",
         pas.CompactionConfig(strategy="sort", sort_columns=["id"]))),
    ("compaction-config", "give 0 for all cores",
     job(pas.build_compaction_job, "compact", pas.CompactionConfig(parallelism=-1)),
     job(pas.build_compaction_job, "compact", pas.CompactionConfig(parallelism=0))),
    ("consumer-step", "a step with one output and without partitions",
     lambda at: run(at, *consume({}, partitions_def=DAYS), partition_key="a"),
     lambda at: run(at, *consume({"mode": "append"}))),
    ("file-format", "build_change_log_asset makes the asset",
     ingest_run(format="canal-json"),
     lambda at: build_change_log_asset("db.t", KEYED, source=pas.FileSource(
         folder=str(landing(at)), format="canal-json"))),
    ("ingest-config", "give 0 for all new files",
     ingest_run(config={"max_files": -1}), ingest_run(config={"max_files": 0})),
    ("input-option", "give a list of names",
     lambda _: pas.paimon_input(columns="id"), lambda _: pas.paimon_input(columns=["id"])),
    ("input-option", "needs two snapshots, or two tags",
     lambda _: pas.paimon_input(between="a"), lambda _: pas.paimon_input(between=("a", "b"))),
    ("maintenance-config", "give 0 or more",
     lambda _: pas.MaintenanceConfig(seconds_per_table=-1).check(),
     lambda _: pas.MaintenanceConfig(seconds_per_table=0).check()),
    ("metadata-key", "paimon_output(table='database.table'), or a key of two parts",
     run_of(stored_asset({"schema": "db"})), run_of(stored_asset(pas.paimon_output(table="db.t")))),
    ("operation", "There are alter_view_dialect",
     lambda _: build_operation_job("compct"), lambda _: build_operation_job("compact")),
    ("option-unknown", "Did you mean 'read.batch-size'",
     lambda _: pas.paimon_input(options={"read.batchsize": "1"}),
     lambda _: pas.paimon_input(options={"read.batch-size": "1"})),
    ("outside-partition", "return only rows of the partition",
     run_of(days(rows=pa.table({"id": [1], "day": ["b"]})), partition_key="a"),
     run_of(days(), partition_key="a")),
    ("outside-partition", "The rows lack column 'day'",
     run_of(days(rows=ROWS.select(["id"])), partition_key="a"), run_of(days(), partition_key="a")),
    ("partition-column", "or neither", definition(partitions_def=DAYS), definition()),
    ("partition-column", "is none of its columns: id, day",
     lambda _: days(partition_column="x"), lambda _: days()),
    ("partition-column", "name its column instead of",
     lambda _: days(partition_column={"x": "day"}), lambda _: days()),
    ("partition-column", "give each its column, as a mapping",
     lambda _: days(PLAIN, partitions_def=GRID, mode="append"),
     lambda _: days(PLAIN, partitions_def=GRID, mode="append",
                    partition_column={"x": "day", "y": "id"})),
    ("partition-column", "paimon_output(partition_column=…)",
     run_of(stored_asset({}, partitions_def=DAYS), partition_key="a"),
     run_of(stored_asset(pas.paimon_output(partition_column="day"), partitions_def=DAYS),
          partition_key="a")),
    ("partition-column", "Its columns are id, day",
     lambda at: (at.once("t", lambda: run(at, plain())), run(
         at, stored_asset(pas.paimon_output(partition_column="x"), partitions_def=DAYS),
         partition_key="a")),
     run_of(stored_asset(pas.paimon_output(partition_column="day", mode="append"),
                         partitions_def=DAYS), partition_key="a")),
    ("partition-key", "need a name",
     lambda _: pas.build_partition_keys_sensor(
         plain(), column="day",
         partitions_def=dg.DynamicPartitionsDefinition(lambda _: ["a"])),
     lambda _: pas.build_partition_keys_sensor(plain(), column="day", partitions_def=DYNAMIC)),
    ("partition-key", "Keep one of them",
     lambda _: days(Schema.of({"day": "INT"}, partition_keys=["day"]),
                    partitions_def=dg.StaticPartitionsDefinition(["1", "01"])),
     lambda _: days(Schema.of({"day": "INT"}, partition_keys=["day"]),
                    partitions_def=dg.StaticPartitionsDefinition(["1"]))),
    ("partition-window", "Use a TIMESTAMP WITH LOCAL TIME ZONE column",
     window_run("DATE", HOURS, "2024-01-01-01:00"),
     window_run("TIMESTAMP_LTZ(3)", HOURS, "2024-01-01-01:00")),
    ("partition-window", "or wider windows", window_run("DATE", HOURS, "2024-01-01-01:00"),
     window_run("DATE", DAILY, "2024-01-01")),
    ("resource-field", "PaimonIOManager has the catalog as 'paimon': give that 'warehouse'",
     lambda at: pas.PaimonIOManager(paimon=at.paimon, warehouse="w"),
     lambda at: pas.PaimonIOManager(paimon=pas.PaimonCatalogResource(warehouse="w"))),
    ("masked-secret", "Remove the `resources:` section",
     lambda at: pas.PaimonCatalogResource(warehouse=str(at.path), token="*").catalog(),  # noqa: S106
     lambda at: pas.PaimonCatalogResource(warehouse=str(at.path)).catalog()),
    ("schema", "Declare primary_keys and partition_keys in the Schema",
     definition(PLAIN, primary_keys="id"), definition(KEYED)),
    ("schema", "Declare the table by Schema.of, the rules by build_pandera_checks",
     definition(pandera.DataFrameSchema({"id": pandera.Column(pa.duration("s"))})),
     definition(PLAIN)),
    ("schema-change", "such as 'ADD COLUMN note STRING'",
     job(pas.build_schema_evolution_job, "evolve_schema",
         pas.SchemaEvolutionConfig(table="db.t", changes=["RENAME TO db.u"])),
     job(pas.build_schema_evolution_job, "evolve_schema",
         pas.SchemaEvolutionConfig(table="db.t", changes=["ADD COLUMN note STRING"]))),
    ("schema-drift", "or drop the table",
     lambda at: (at.once("t", lambda: run(at, plain(KEYED))),
                 run(at, plain(None, primary_keys=["id", "day"]))),
     lambda at: (at.catalog.drop_table("db.t"),
                 run(at, plain(None, primary_keys=["id", "day"])))),
    ("schema-drift", "create the table again",
     lambda at: (at.once("t", lambda: run(at, plain(KEYED))),
                 run(at, plain(Schema.of(PAIR, primary_keys=["id", "day"])))),
     lambda at: (at.catalog.drop_table("db.t"),
                 run(at, plain(Schema.of(PAIR, primary_keys=["id", "day"]))))),
    ("schema-drift", "schema_policy 'add' or 'widen' or 'sync'",
     lambda at: (at.once("t", lambda: run(at, plain())),
                 run(at, plain(Schema.of({**PAIR, "n": "INT"})))),
     lambda at: run(at, plain(Schema.of({**PAIR, "n": "INT"}), schema_policy="add"))),
    ("schema-mismatch", "Declare the stored type",
     lambda at: add_numbers(at, columns={"n": "STRING"}), add_numbers),
    ("schema-mismatch", "or alter the table",
     lambda at: add_numbers(at, columns={"n": "DECIMAL(20, 0)"}),
     lambda at: (at.catalog.execute("ALTER TABLE db.t ALTER COLUMN n TYPE DECIMAL(20, 0)"),
                 add_numbers(at, columns={"n": "DECIMAL(20, 0)"}))),
    ("schema-policy", "needs a declared schema (paimon_output(schema=…))",
     lambda _: pas.paimon_output(schema_policy="sync"),
     lambda _: pas.paimon_output(schema_policy="sync", schema=PLAIN)),
    ("schema-policy", "needs a declared schema",
     definition(None, schema_policy="sync"), definition(PLAIN, schema_policy="sync")),
    ("schema-policy", "Choose 'add' or 'widen'",
     lambda at: pas.build_file_ingestion_asset(
         "db.t", PLAIN, schema_policy="sync",
         source=pas.FileSource(folder="x", extra_columns="add")),
     lambda at: pas.build_file_ingestion_asset(
         "db.t", PLAIN, schema_policy="widen",
         source=pas.FileSource(folder="x", extra_columns="add"))),
    ("source-changed", "Declare primary_keys, or on_changed='ignore'",
     ingest_run(on_changed="again"), ingest_run(on_changed="ignore")),
    ("source-changed", "Declare primary_keys", ingest_run(on_changed="again"),
     ingest_run(KEYED, on_changed="again")),
    ("source-changed", "or land the new rows under new names",
     replace_file, restore_file),
    ("source-columns", "say FileSource(extra_columns='ignore')",
     ingest_run(rows=pa.table({"id": [1], "day": ["a"], "d": pa.array([1], pa.duration("s"))}),
              extra_columns="add"),
     ingest_run(rows=pa.table({"id": [1], "day": ["a"], "d": pa.array([1], pa.duration("s"))}),
              extra_columns="ignore")),
    ("source-folder", "say FileSource(may_be_missing=True)",
     ingest_run(folder="/nowhere"), ingest_run(folder="/nowhere", may_be_missing=True)),
    ("source-folder", "or leave it out for the asset's own folder",
     ingest_run(config={"source": "/nowhere"}, may_be_missing=True), ingest_run()),
    ("source-folder", "give their form as ChangeLog(records=…)",
     ingest_run(format="canal-json", options={"sep": ";"}),
     lambda at: build_change_log_asset("db.t", KEYED, log=ChangeLog(), source=pas.FileSource(
         folder="x", format="canal-json"))),
    ("source-folder", "or leave it out to keep all", ingest_run(remembered_files=0), ingest_run()),
    ("source-folder", "expected one of",
     ingest_run(on_changed="x"), ingest_run(on_changed="ignore")),
    ("source-folder", "say extra_columns='ignore'",
     lambda _: pas.FileSource(folder="x", format="csv", dead_letters="d.l", extra_columns="add"),
     lambda _: pas.FileSource(folder="x", format="csv", dead_letters="d.l",
                              extra_columns="ignore")),
    ("source-folder", "is left out by on_bad_file='quarantine'",
     lambda _: pas.FileSource(folder="x", dead_letters="d.l"),
     lambda _: pas.FileSource(folder="x", on_bad_file="quarantine")),
    ("source-folder", "which is not set",
     lambda at: run(at, pas.build_file_ingestion_asset("db.t", PLAIN, source=pas.FileSource(
         folder=dg.EnvVar("NO_SUCH_FOLDER")))), ingest_run()),
    ("spark-connect", "use spark_session, or a master that is none of sc://",
     lambda _: pas.PaimonSparkResource(master="sc://host").spark_context,
     lambda _: pas.PaimonSparkResource(master="local[1]")),
    ("spark-settings", "write spark.executor.memory=4g",
     lambda _: parse_settings("4g"),
     lambda _: parse_settings("spark.executor.memory=4g 'spark.app.name=two words'")),
    ("table-not-found", "Materialize its asset first",
     run_of(dg.AssetSpec(["db", "t"]), reader),
     lambda at: (run(at, plain()), run(at, dg.AssetSpec(["db", "t"]), reader))),
    ("time-travel", "takes one of", lambda _: pas.paimon_input(snapshot=1, tag="x"),
     lambda _: pas.paimon_input(tag="x")),
    ("write-mode", "Declare primary_keys, or use mode 'append' or 'overwrite'",
     definition(PLAIN, mode="upsert"), definition(PLAIN, mode="append")),
    ("write-mode", "Declare primary_keys", definition(PLAIN, mode="upsert"),
     definition(KEYED, mode="upsert")),
    ("write-mode", "Declare partition_keys=['day'] or primary_keys",
     lambda _: days(PLAIN), lambda _: days()),
    ("write-mode", "or set mode='append'",
     lambda _: days(PLAIN), lambda _: days(PLAIN, mode="append")),
    ("write-mode", "Choose the mode: paimon_output(mode='append')",
     lambda at: run(at, *consume({})), lambda at: run(at, *consume({"mode": "append"}))),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_asset_refusal_works(way, tmp_path):
    take(way, AssetPlace(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,day\nx,1\n"),
        ("b.csv", "id,day\n1\n"),
        ("c.csv", 'id,day\n"1,2\n'),
        ("a.json", '\n{"id": 1, "day": \n'),
        ("b.json", '\n{"id": 99999999999999999999, "day": "a"}\n'),
        ("c.json", '\n{"id": "x", "day": "a"}\n'),
    ],
)
def test_bad_record_is_named_once_and_becomes_dead_letter(name, text, tmp_path):
    at, kind = AssetPlace(tmp_path), name[2:]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(text)
    with pytest.raises(PaimonError) as caught:
        run(at, ingest(at, folder=tmp_path / "in", format=kind))
    message, _, _ = str(caught.value).partition("\n")
    for part in (f"{name}', line 2: ", "Correct ", "say FileSource(dead_letters='db.table')"):
        assert message.count(part) == 1
    assert re.search("(?i)row #?\\d", message) is None
    letters = "db.letters"
    run(at, ingest(at, folder=tmp_path / "in", format=kind, dead_letters=letters))
    assert at.catalog.get_table(letters).to_arrow()["line"].to_pylist() == [2]
