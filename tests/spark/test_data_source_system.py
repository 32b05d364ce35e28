"""The data source as Spark's planner calls it, without Spark: system tables, names, options."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, open_catalog
from paimon_assets.engine.table.system.system_table import GLOBAL_SYSTEM_TABLES, SYSTEM_TABLES
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving
from tests.testkit.tables import new_table

data_source = pytest.importorskip("paimon_assets.spark.data_source")
cloudpickle = pytest.importorskip("pyspark.cloudpickle")
error_inside = pytest.importorskip("paimon_assets.spark.failure").error_inside

TOKEN, HEADER = "the-token-of-the-catalog", "a-header-of-the-catalog"


@pytest.fixture
def table(new_catalog):
    table = new_table(new_catalog, {"id": "BIGINT", "value": "INT"})
    for number in range(2):
        rows = pa.table({"id": [1, 2], "value": pa.array([number] * 2, pa.int32())})
        table.new_write_builder().write(rows.to_reader(), EmbeddedExecutor())
    return table


def read(warehouse, **options):
    """Return (columns, rows), through the bytes that Spark sends to its tasks."""
    source = data_source.PaimonDataSource({"warehouse": warehouse, **options})
    schema = source.schema()
    planner = source.reader(schema)
    task = cloudpickle.loads(cloudpickle.dumps(planner))
    try:
        partitions = planner.partitions()
    except NotImplementedError:
        partitions = [None]
    rows = [row for part in partitions for batch in task.read(part) for row in batch.to_pylist()]
    return schema.fieldNames(), rows


@pytest.fixture
def server_options(warehouse):
    """Options of a server that wants a token."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    principals = Path(warehouse).parent / "principals.toml"
    principals.write_text(
        f'[[principal]]\nname = "a"\ntoken-sha256 = ["{digest}"]\n'
        'grants = [{ on = "*", may = ["all"] }]'
    )
    with serving(ServeSettings(warehouse=warehouse, principals=principals)) as client:
        uri = f"http://127.0.0.1:{client.port}"
        yield {"metastore": "rest", "uri": uri, "token": TOKEN, "header.X-Own": HEADER}


def test_no_secret_of_catalog_is_sent_to_tasks(table, server_options):
    options = {**server_options, "table": "db.t"}
    save = data_source.PaimonDataSource(options)
    writer = save.writer(save.schema(), overwrite=False)
    for_tasks = cloudpickle.dumps(writer.write)
    for_the_commit = cloudpickle.dumps(writer)
    rows = pa.RecordBatch.from_pydict({"id": [7], "value": pa.array([7], pa.int32())})
    written = cloudpickle.loads(for_tasks)(iter([rows]))
    cloudpickle.loads(for_the_commit).commit([written])
    assert table.latest_snapshot().id == 3
    sent = [for_tasks, cloudpickle.dumps(written)]
    for read_options in (options, {**options, "table": "db.t$files"}):
        source = data_source.PaimonDataSource(read_options)
        planner = source.reader(source.schema())
        sent += [cloudpickle.dumps(each) for each in (*planner.partitions(), planner)]
    stream = save.streamReader(save.schema())
    sent += [cloudpickle.dumps(stream)]
    sent += [cloudpickle.dumps(p) for p in stream.partitions({"snapshot": 0}, {"snapshot": 3})]
    for data in sent:
        assert TOKEN.encode() not in data
        assert HEADER.encode() not in data


def test_driver_reads_system_tables_of_catalog_with_secrets(table, warehouse, server_options):
    assert read(warehouse, table="db.t$snapshots", **server_options) == read(
        warehouse, table="db.t$snapshots"
    )


@pytest.mark.parametrize("name", sorted({*SYSTEM_TABLES} - {"row_tracking"}))
def test_every_system_table_has_its_columns_and_rows(table, warehouse, name):
    expected = table.system_table(name).to_arrow()
    columns, rows = read(warehouse, table=f"db.t${name}")
    assert columns == expected.schema.names
    assert len(rows) == expected.num_rows


@pytest.mark.parametrize("name", GLOBAL_SYSTEM_TABLES)
def test_every_system_table_of_catalog_has_its_columns_and_rows(table, warehouse, name):
    expected = open_catalog(warehouse).get_system_table(f"sys.{name}").to_arrow()
    columns, rows = read(warehouse, table=f"sys.{name}")
    assert columns == expected.schema.names
    assert rows == expected.select(columns).to_pylist()


def test_columns_of_system_tables_and_kinds_of_changes(table, warehouse):
    columns, rows = read(warehouse, table="db.t$snapshots", columns="commit_kind, snapshot_id")
    assert columns == ["commit_kind", "snapshot_id"]
    assert [row["snapshot_id"] for row in rows] == [1, 2]
    between = {"incremental-between": "1,2", "columns": "rowkind,value"}
    assert read(warehouse, table="db.t", **between)[1] == [{"rowkind": "+I", "value": 1}] * 2


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"table": "db.t$absent"}, "system-table-not-found"),
        ({"table": "sys.absent"}, "system-table-not-found"),
        ({"table": "db.t$snapshots", "columns": "absent"}, "column-not-found"),
        ({"table": "db.t", "columns": "absent"}, "column-not-found"),
        ({"table": "db.absent"}, "table-not-found"),
        ({}, "spark-options"),
    ],
)
def test_missing_table_is_named(table, warehouse, options, kind):
    with pytest.raises(Exception, match="paimon-error") as caught:
        read(warehouse, **options)
    assert error_inside(caught.value).kind == kind


def test_storage_options_are_no_options_of_table(warehouse):
    location = data_source.Location.of(
        {"table": "db.t", "scan.snapshot-id": "1"},
        {"warehouse": warehouse, "s3.secret-key": "hidden", "file.any": "hidden"},
    )
    assert location.table_options == {"scan.snapshot-id": "1"}
    assert "hidden" not in repr(location)


def test_catalog_options_are_not_table_options():
    location = data_source.Location.of(
        {"table": "db.t", "branch": "b"},
        {"metastore": "rest", "uri": "https://host", "token": "hidden", "dlf.region": "r"},
    )
    assert location.table_options == {"branch": "b"}
    with pytest.raises(InvalidInputError, match="'warehouse'"):
        data_source.Location.of({"table": "db.t"}, {})
