"""Calls that provoke the refusals of `docs/supported.md`: one for each row of its table."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from pyarrow import orc

from paimon_assets import (
    DataSplit,
    EmbeddedExecutor,
    Identifier,
    Schema,
    SegmentSource,
    TableCatalog,
    open_catalog,
    set_option,
    update_column_type,
)
from paimon_assets.cdc.kafka.registry import SchemaRegistry
from paimon_assets.cdc.records.change_batch import CdcOptions
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.cdc.records.mysql import mysql_type
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, snapshot_from_json
from paimon_assets.engine.codec.rest.bodies import AlterTableRequest
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.wire import SPLIT_MAGIC, dump_split, load_split
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.features import refuse_ranges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.key_order import sort_keys
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.data.worker import read_split
from paimon_assets.engine.data.write.row_key_extractor import refuse_unroutable
from paimon_assets.engine.fileio.arrow_fs import ArrowFileIO
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import DropPrimaryKey, UpdateColumnComment
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.types.data_types import integer
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.erasure import erase
from paimon_assets.iceberg.follow import repair
from tests.cdc.kit.schema_registry import RegistryServer
from tests.testkit import spark_refusals
from tests.testkit.blob_files import PLACEHOLDER, file_bytes
from tests.testkit.builders import data_file
from tests.testkit.catalog_kinds import CATALOG_KINDS
from tests.testkit.retyped_keys import retype, write_on
from tests.testkit.served_catalog import ServedCatalog
from tests.testkit.tables import new_table, table_schema

EXECUTOR = EmbeddedExecutor(threads=1)
KEYED: dict[str, Any] = {"primary_keys": ["k"]}
POSTPONED = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
PLAIN = {"k": "INT", "v": "INT"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array([3, 4], pa.int32())})


class Place:
    """A catalog, and a directory beside it."""

    def __init__(self, catalog, tmp_path):
        self.catalog = catalog
        self.path = tmp_path

    def table(self, columns=None, *, name="db.t", **more):
        """Create a table as other engines can; a keyed one has one bucket by default."""
        if "primary_keys" in more:
            more["options"] = {"bucket": "1", **more.get("options", {})}
        schema = Schema.of(columns or PLAIN, **more)
        self.catalog._catalog.create_table(Identifier.parse(name), schema)
        return self.catalog.get_table(name)

    def with_rows(self, **more):
        table = self.table(**more)
        table.new_write_builder().write(ROWS, EXECUTOR)
        return table

    def folder(self, *, name="landing"):
        """Write a folder of one Parquet file."""
        folder = self.path / name
        folder.mkdir()
        pq.write_table(ROWS, folder / "1.parquet")
        return folder


Provocation = Callable[[Any], object]


def plan(columns=None, /, **options):
    return lambda at: at.table(columns, options=options).new_read_builder().plan()


def keyed_plan(**options):
    return lambda at: at.table(**KEYED, options=options).new_read_builder().plan()


def write(**options):
    return lambda at: at.table(options=options).new_write_builder().write(ROWS, EXECUTOR)


def write_with(**options):
    """Write to a table with options that it does not store."""
    return lambda at: at.table().copy(options).new_write_builder().write(ROWS, EXECUTOR)


_ICEBERG = {"metadata.iceberg.storage": "table-location"}


def _registered_json_schema(_):
    server = RegistryServer({})
    server.schemas[1] = {"schema": "{}", "schemaType": "JSON"}
    with server.running():
        SchemaRegistry({"schema.registry.url": server.uri})(1)


def _iceberg(columns, **options):
    return lambda at: at.table(columns, options={**_ICEBERG, **options})


def _repaired_with_orc(at):
    table = at.with_rows(options={"file.format": "orc"})
    changes = {**_ICEBERG, "file.format": "parquet"}
    return repair(table.alter([set_option(*item) for item in changes.items()])._store)


def _file(path, **more):
    size = path.stat().st_size
    return DataFileMeta(file_name=path.name, file_size=size, row_count=1, schema_id=0, **more)


def _read_file(file, path, schema, **more):
    context = ReadContext(
        table="db.t",
        schema=schema,
        file_schemas=more.pop("file_schemas", ()),
        columns=tuple(schema.field_names),
        predicate=None,
        file_io=FileIOSpec(),
    )
    split = DataSplit(
        snapshot_id=1,
        partition=EMPTY_ROW,
        bucket=0,
        bucket_path=str(path),
        data_files=(file,),
        **more,
    )
    list(read_split(context, split, LocalFileIO()))


def _parquet(at, table):
    path = at.path / "f.parquet"
    pq.write_table(table, path)
    return _file(path)


def _fallback_branch(at):
    table = at.with_rows()
    table.tags.create("v1")
    table.branches.create("old", tag="v1")
    table.at_branch("old").alter([UpdateColumnComment(field_names=("v",), new_comment="x")])
    changed = FileStore.open(LocalFileIO(), table.path, options={"branch": "old"})
    path = Path(changed.paths.schema(changed.schema.id))
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["fields"][1] |= {"name": "other", "id": 1}
    path.write_text(json.dumps(stored), encoding="utf-8")
    table.copy({"scan.fallback-branch": "old"}).new_read_builder().plan()


def _with_stored_ids(at):
    table = at.with_rows(options=TRACKED)
    table.delete("k = 1")
    return table


def _blob_reference(at):
    schema = table_schema({"k": "INT", "b": "BLOB"}, options={"data-evolution.enabled": "true"})
    rows = pa.table({"k": pa.array([1], pa.int32()), "b": pa.array([b"where"], pa.binary())})
    _read_file(_parquet(at, rows), at.path, schema)


def _blob_placeholder(at):
    schema = table_schema({"b": "BLOB"}, options={"data-evolution.enabled": "true"})
    path = at.path / "f.blob"
    path.write_bytes(file_bytes([PLACEHOLDER]))
    _read_file(_file(path, first_row_id=0, write_cols=("b",)), at.path, schema)


def _shredded_variant(at):
    pieces = {"metadata": b"\x01\x00\x00", "value": b"\x00", "typed_value": 7}
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([pieces])})
    _read_file(_parquet(at, rows), at.path, table_schema({"k": "INT", "v": "VARIANT"}))


def _far_int96(at):
    rows = pa.table({"t": pa.array([253_402_300_799_000_000], pa.timestamp("us"))})
    path = at.path / "far.parquet"
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, store_schema=False)
    _read_file(_file(path), at.path, table_schema({"t": "TIMESTAMP(9)"}))


def _early_orc(at):
    table = at.table({"t": "TIMESTAMP(6)"}, options={"file.format": "orc"})
    rows = pa.table({"t": pa.array([-1], pa.timestamp("us"))})
    table.new_write_builder().write(rows, EmbeddedExecutor(threads=1))


def _far_orc_inside(at):
    far = pa.array([[253_402_300_799_000]], pa.list_(pa.timestamp("ms")))
    path = at.path / "far.orc"
    orc.write_table(pa.table({"l": far}), path)
    with open_reader(LocalFileIO(), str(path), file_format="orc") as reader:
        list(reader.batches(["l"], predicate=None, batch_rows=9))


def _postponed_files(at):
    table = at.with_rows(**KEYED, options=POSTPONED)
    path = Path(FileStore.open(LocalFileIO(), table.path).paths.schema(0))
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["options"]["bucket"] = "1"
    path.write_text(json.dumps(stored), encoding="utf-8")
    at.catalog.get_table("db.t").new_read_builder().plan()


def _retyped_key(at):
    table = at.with_rows(**KEYED)
    retype(table, "k", "BIGINT NOT NULL")
    return at.catalog.get_table("db.t")


def _retyped_key_of_a_file(at):
    table = _retyped_key(at)
    Path(FileStore.open(LocalFileIO(), table.path).paths.schema(0)).unlink()
    table.new_read_builder().with_filter(equal("v", 3)).to_arrow(EXECUTOR)


def _key_type_of_before(at):
    table = _retyped_key(at)
    write_on(table, ROWS)
    retype(table, "k", "INT NOT NULL")
    at.catalog.get_table("db.t").new_read_builder().to_arrow(EXECUTOR)


def _newer_version(parse):
    return lambda at: parse(json.dumps({"version": 99, "id": 1}).encode(), "file")


def _split(**more):
    return DataSplit(
        snapshot_id=1,
        partition=EMPTY_ROW,
        bucket=0,
        bucket_path="/t/bucket-0",
        data_files=(data_file(),),
        **more,
    )


def _cross_partition(at, **options):
    return at.table(
        {"k": "INT", "v": "INT"},
        primary_keys=["k"],
        partition_keys=["v"],
        options={"bucket": "-1", **options},
    )


def _hive_time(at):
    options = {"bucket": "2", "bucket-key": "v", "bucket-function.type": "hive"}
    table = at.table({"k": "INT", "v": "TIME"}, options=options)
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.time32("ms"))})
    table.new_write_builder().write(rows, EXECUTOR)


def _retyped_column(at):
    new = table_schema({"v": "INT"})
    old = table_schema({"v": "ARRAY<INT>"})
    mapping = importlib.import_module("paimon_assets.engine.data.field_mapping").FieldMapping
    mapping.of(new.fields, (), old, "f.parquet")


def _row_change(change, **options):
    return lambda at: change(at.with_rows(**KEYED, options=options))


def _sketch(function):
    def provoke(at):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "datasketches", None)
            settings = FieldAggregation(column="v", function=AggregateFunction(function))
            Aggregate.of(settings, "db.t")

    return provoke


def _segment(table, path, file_format="parquet"):
    table.segments().add(SegmentSource(path=str(path), format=file_format), EXECUTOR)


def _segment_of_delta(at):
    folder = at.folder()
    (folder / "_delta_log").mkdir()
    _segment(at.table(), folder)


def _mixed_segments(at):
    table = at.with_rows(options={"file.format": "orc"})
    _segment(table, at.folder())
    table.new_row_change_builder().delete("k = 1")


def _load_with_marked_rows(at):
    table = at.with_rows(options={"deletion-vectors.enabled": "true"})
    table.new_write_builder().write(ROWS, EXECUTOR)
    table.new_row_change_builder().delete("k = 1")
    table.segments().delete([0])


def _compacted_segment(at):
    table = at.table()
    _segment(table, at.folder())
    [entry] = table.state.live_files()
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        compact_increment=CompactIncrement(compact_before=(entry.file,)),
    )
    store = FileStore.open(LocalFileIO(), table.path)
    FileStoreCommit(store).commit(
        [message], commit_user="u", commit_identifier=1, kind=CommitKind.COMPACT
    )


def _no_atomic_publish(at):
    backend = LocalFileSystem()
    filesystem = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(backend))
    file_io = ArrowFileIO(filesystem, FileIOSpec(scheme="sftp"), backend=backend)
    file_io.publish(f"sftp://{at.path}/snapshot-1", b"{}")


def _merging_change_log(at):
    from paimon_assets.assets import FileSource
    from paimon_assets.cdc import build_change_log_asset

    schema = Schema.of(
        {"id": "INT"}, primary_keys=["id"], options={"merge-engine": "partial-update"}
    )
    source = FileSource(folder=str(at), format="debezium-json")
    build_change_log_asset("db.t", schema, source=source)


REFUSALS: dict[str, Provocation] = {
    "table of `type` format-table": plan(type="format-table"),
    "catalog of another `metastore`": lambda at: open_catalog("/w", {"metastore": "hive"}),
    "erasing rows of a table with data evolution": lambda at: erase(
        at.with_rows(options=EVOLVING), "k = 1"
    ),
    "erasing rows of a table whose catalog": lambda at: erase(
        _managed_catalog(at.path).create_table("db.t", Schema.of(PLAIN)), "k = 1"
    ),
    "renaming or moving a tag": lambda at: rename_served_tag(at.path),
    "statement that": lambda at: at.catalog.execute("REPLACE TABLE db.t (k INT)"),
    "`CALL` of a procedure": lambda at: at.catalog.execute(
        "CALL sys.migrate_table(table => 'db.t')"
    ),
    "query, `INSERT`": lambda at: at.catalog.execute("INSERT INTO db.t VALUES (1, 1)"),
    "view opened as a table": lambda at: open_view_as_table(at.path),
    "views of a catalog in `CATALOGS`": lambda at: ask_for_views(at.path),
    "properties of databases, and functions": lambda at: ask_for_properties(at.path),
    "default value, primary key": lambda at: AlterTableRequest(
        changes=(DropPrimaryKey(),)
    ).to_dlf(),
    "`chain-table.enabled`": plan(**{"chain-table.enabled": "true"}),
    "`query-auth.enabled`, unless the catalog is asked and leaves the read as it is": plan(
        **{"query-auth.enabled": "true"}
    ),
    "`scan.primary-branch`": plan(**{"scan.primary-branch": "b"}),
    "fallback branch": _fallback_branch,
    "`fields.<c>.map.storage-layout": plan(**{"fields.v.map.storage-layout": "shared-shredding"}),
    "BLOB column without": plan({"b": "BLOB", "v": "INT"}),
    "VECTOR column": plan({"b": "VECTOR<FLOAT, 3>"}),
    "GEOMETRY": plan({"g": "GEOMETRY"}),
    "`blob-view-field`": plan(**{"blob-view-field": "v"}),
    "BLOB column stored": _blob_reference,
    "blob file that": _blob_placeholder,
    "shredded VARIANT": _shredded_variant,
    "`pk-clustering-override`": keyed_plan(**{"pk-clustering-override": "true"}),
    "`sequence.snapshot-ordering`": keyed_plan(**{"sequence.snapshot-ordering": "true"}),
    "`scan.bucket`": keyed_plan(**{"scan.bucket": "0"}),
    "`postpone.merge-on-read`": keyed_plan(bucket="-2", **{"postpone.merge-on-read": "true"}),
    "postponed files": _postponed_files,
    "key column of another type in older": lambda at: (
        _retyped_key(at).new_write_builder().write(ROWS, EXECUTOR)
    ),
    "key column of another type in a file": _retyped_key_of_a_file,
    "key column with a type that it had": _key_type_of_before,
    "`scan.mode` by creation": plan(**{"scan.mode": "from-file-creation-time"}),
    "`scan.file-creation-time-millis`": plan(**{"scan.file-creation-time-millis": "1"}),
    "`incremental-to-auto-tag`": plan(**{"incremental-to-auto-tag": "t"}),
    "changes of a data-evolution": lambda at: (
        at.table(options=EVOLVING).copy({"incremental-between": "0,0"}).new_read_builder().plan()
    ),
    "data file of another format": lambda at: _read_file(
        data_file(file_name="f.lance"), at.path, table_schema(PLAIN)
    ),
    "snapshot of a newer": _newer_version(snapshot_from_json),
    "schema of a newer": _newer_version(schema_from_json),
    "wrapped split": lambda _: load_split(
        SPLIT_MAGIC.to_bytes(8, "big", signed=True) + (99).to_bytes(4, "big")
    ),
    "streaming split with files": lambda _: load_split(
        dump_split(_split(before_files=(data_file(),), is_streaming=True))
    ),
    "streaming split read": lambda at: _read_file(
        _parquet(at, ROWS),
        at.path,
        table_schema(PLAIN, **KEYED, options={"bucket": "1"}),
        is_streaming=True,
    ),
    "sorting a table with `row-tracking": lambda at: (
        at.table(options=TRACKED)
        .new_compaction_builder()
        .with_strategy("sort")
        .with_order(["k"], "order")
        .run()
    ),
    "delete of rows of a table with `data-evolution": lambda at: at.table(options=EVOLVING).delete(
        "k = 1"
    ),
    "compaction of a table with BLOB": lambda at: at.table(
        {"k": "INT", "b": "BLOB"}, options=EVOLVING
    ).compact(),
    "columns alone of a table with a primary key": lambda at: (
        at.with_rows(primary_keys=["k"]).new_column_write_builder(["v"]).write(lambda rows: rows)
    ),
    "columns alone of a table without": lambda at: (
        at.with_rows().new_column_write_builder(["v"]).write(lambda rows: rows)
    ),
    "row ids for a table that exists": lambda at: _with_stored_ids(at).enable_row_ids(
        data_evolution=True
    ),
    "update of rows that a table": lambda at: refuse_ranges("db.t", [data_file()]),
    "write to a table with `metadata.iceberg": lambda at: at.table(
        options={"metadata.iceberg.storage": "rest-catalog"}
    ),
    "Iceberg metadata of columns": _iceberg({"id": "INT", "t": "TIME(3)"}),
    "Iceberg metadata of a column that": lambda at: at.table(options=_ICEBERG).alter(
        [update_column_type("v", "STRING")]
    ),
    "Iceberg metadata of `file.format`": _iceberg(PLAIN, **{"file.format": "orc"}),
    "Iceberg metadata, `deletion": _iceberg(PLAIN, **{"deletion-vectors.enabled": "true"}),
    "Iceberg metadata with": _iceberg(PLAIN, **EVOLVING),
    "Iceberg metadata of a table": _repaired_with_orc,
    "write to a table with `pk-vector": write(**{"pk-vector.index.columns": "v"}),
    "write to a table with `manifest.format`": write_with(**{"manifest.format": "orc"}),
    "write of `file.format`": write_with(**{"file.format": "csv"}),
    "new table, or change of one, with": write(**{"file.format": "csv"}),
    "write of VARIANT": lambda at: at.table(
        {"k": "INT", "v": "VARIANT"}, options={"file.format": "orc"}
    ).append(ROWS.select(["k"])),
    "write of a TIMESTAMP to orc": _early_orc,
    "read of a TIMESTAMP in orc": _far_orc_inside,
    "TIMESTAMP(7-9) in a Parquet file": _far_int96,
    "keys that may change": lambda at: refuse_unroutable(
        _cross_partition(at).schema.with_dynamic_options({"sequence.field": "v"}), "db.t"
    ),
    "overwrite of one partition": lambda at: _cross_partition(at).overwrite(
        ROWS.slice(0, 1), {"v": 3}
    ),
    "hive buckets": _hive_time,
    "MAP, MULTISET or VARIANT": lambda _: serialize_row(
        cast("Any", [{}]), [parse_type("MAP<INT, INT>")]
    ),
    "key or sequence field of a type": lambda at: sort_keys([pa.nulls(1, pa.list_(pa.int8()))]),
    "cast that Paimon": lambda at: cast_array(
        pa.nulls(1, pa.date32()), parse_type("DATE"), parse_type("BOOLEAN")
    ),
    "column whose old files": _retyped_column,
    "change of a column inside": lambda at: at.table({"k": "INT", "v": "ROW<a INT>"}).alter(
        [UpdateColumnComment(field_names=("v", "a"), new_comment="x")]
    ),
    "delete from": _row_change(lambda t: t.delete("k = 1"), **{"merge-engine": "partial-update"}),
    "deletes of rows": _row_change(
        lambda t: t.delete("k = 1"),
        **{
            "merge-engine": "aggregation",
            "sequence.field": "v",
            "aggregation.remove-record-on-delete": "true",
        },
    ),
    "update under": _row_change(
        lambda t: t.new_row_change_builder().update({"v": 1}, "k = 1"),
        **{"merge-engine": "aggregation"},
    ),
    "row changes while": _row_change(lambda t: t.delete("k = 1"), **POSTPONED),
    "merge on FLOAT": lambda at: at.table({"k": "INT", "v": "DOUBLE"}).upsert(
        pa.table({"k": [1], "v": [1.0]}), on=["v"]
    ),
    "theta_sketch": _sketch("theta_sketch"),
    "hll_sketch": _sketch("hll_sketch"),
    "segment of a table with": lambda at: _segment(at.table(**KEYED), at.folder()),
    "segment of another format": lambda at: _segment(at.table(), at.folder(), "lance"),
    "segment that is": _segment_of_delta,
    "segment on another": lambda at: _segment(at.table(), "s3://bucket/x"),
    "row changes over": _mixed_segments,
    "taking away a load of": lambda at: at.with_rows(**KEYED).segments().delete([0]),
    "taking away a load whose": _load_with_marked_rows,
    "compaction of a segment's": _compacted_segment,
    "commit to a storage": _no_atomic_publish,
    "catalog with `lock.enabled`": lambda at: new_table(
        open_catalog(str(at.path / "locked"), {"lock.enabled": "true"}), PLAIN
    ),
    '`format("paimon_assets")`': spark_refusals.write,
    "`CREATE TABLE ... USING": spark_refusals.create,
    '`writeStream.format("paimon_assets")` into': spark_refusals.stream_of_buckets,
    '`writeStream.format("paimon_assets")` without': spark_refusals.stream_without_checkpoint,
    "change records as": lambda at: cdc_format("ogg-json"),
    "schema of a registry": _registered_json_schema,
    "change log into": _merging_change_log,
    "column of a change log": lambda at: mysql_type("SPHERE", CdcOptions()),
    "TIME column on": spark_refusals.time,
    "TIMESTAMP on Spark": spark_refusals.nanoseconds,
}
"""Calls that provoke the rows of the document that begin with these words."""


def _managed_catalog(at: Path) -> TableCatalog:
    served = TableCatalog(ServedCatalog(str(at)))
    served.create_database("db")
    return served


def rename_served_tag(at: Path) -> None:
    """Rename a tag of a table whose catalog keeps its versions."""
    table = _managed_catalog(at).create_table("db.t", Schema.of({"k": integer()}))
    table.tags.rename("one", "two")


def ask_for_views(at: Path) -> None:
    _ = _managed_catalog(at).views


def ask_for_properties(at: Path) -> None:
    _managed_catalog(at).get_database("db")


def open_view_as_table(at: Path) -> None:
    catalog = CATALOG_KINDS["rest"](at / "rest")
    catalog.create_database("db")
    catalog.views.create("db.v", "SELECT 1", {"a": "INT"})
    catalog.get_table("db.v")
