"""Snapshot → the metadata Dagster's pages really show.

`dagster/row_count` is the number of rows a reader gets. Append tables have it in their metadata,
and so do primary-key tables without overlapping files. Where files overlap, their keys are counted
if there are few enough (`COUNT_LIMIT_ROWS`); otherwise the entry is left out, and
`build_row_count_check` counts. `paimon/stored_rows` is the number of rows in data files, before
rows of one key are merged.

How many rows each partition of a run has, from metadata wherever that knows.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from paimon_assets.assets import translator
from paimon_assets.assets.partitions import RunPartitions
from paimon_assets.assets.provenance import RUN_ID
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.rest.structure import changes_to_json
from paimon_assets.engine.contract.commit_message import WriteReport
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError, PaimonError
from paimon_assets.engine.spec.evolution.schema_diff import SchemaDifference
from paimon_assets.engine.spec.merge.engine_traits import ColumnRules, EngineTraits
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.options.option import Options
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import not_null
from paimon_assets.engine.spec.words import MASKED, counted, plain_sample
from paimon_assets.engine.table.read.plan import is_counted, visible_rows
from paimon_assets.engine.table.schema_changes import ColumnReport, SchemaChangePlan
from paimon_assets.engine.table.table import Table

PREVIEW = "paimon/preview"
_FILES_SHOWN = 20


def grid(lines: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return lines, each column → value, as a table of Dagster's."""
    return dg.MetadataValue.table([dg.TableRecord(dict(line)) for line in lines])


def preview_metadata(table: Table, snapshot: Snapshot, rows: int) -> dict[str, Any]:
    """Return the first rows of a snapshot as text, nothing if there are none or 0 are asked for.

    Columns that order the records, such as `_position`, are left out if their name begins with _.
    A preview that cannot be read is left out: the snapshot is committed already.

    Cost:
        The manifests, and the first batches, merged where files overlap.
    """
    if rows <= 0:
        return {}
    records: list[Mapping[str, Any]] = []
    options = table.schema.typed_options
    order = {options.get(opt.ROWKIND_FIELD), *options.get(opt.SEQUENCE_FIELD)}
    names = [n for n in table.schema.field_names if n not in order or not n.startswith("_")]
    try:
        builder = table.new_read_builder().with_columns(names).at_snapshot(snapshot.id)
        with builder.with_limit(rows).to_reader() as read:
            while len(records) < rows:
                records += read.read_next_batch().slice(0, rows - len(records)).to_pylist()
    except StopIteration:
        pass
    except (PaimonError, OSError, ValueError, OverflowError):  # values Python has no type for
        return {}
    lines = [{name: plain_sample(value) for name, value in record.items()} for record in records]
    return {PREVIEW: grid(lines)} if lines else {}


def partition_text(table: Table, partition: bytes) -> str:
    """Return a partition as `name=value`, separated by commas; empty without partition keys."""
    values = table.state.partition_text(partition)
    return ", ".join(f"{name}={value}" for name, value in values.items())


def snapshot_files_metadata(
    table: Table, snapshot: Snapshot, added: Sequence[ManifestEntry]
) -> dict[str, Any]:
    """Return the path of a snapshot, and its largest new data files; reads nothing."""
    path = dg.MetadataValue.path(table.state.store.paths.snapshot(snapshot.id))
    lines = [
        {
            "file": table.state.file_path(entry),
            "partition": partition_text(table, entry.partition),
            "bucket": entry.bucket,
            "level": entry.file.level,
            "rows": entry.file.row_count,
            "bytes": entry.file.file_size,
        }
        for entry in sorted(added, key=lambda entry: -entry.file.file_size)[:_FILES_SHOWN]
    ]
    return {"paimon/snapshot_file": path, **({"paimon/files": grid(lines)} if lines else {})}


COLUMN_SCHEMA = "dagster/column_schema"
DATA_VERSION = "dagster/data_version"
"""Tag of an event: the version of the data it is about."""
ROW_COUNT = "dagster/row_count"
SNAPSHOT_ID = "paimon/snapshot_id"
PARTITION_ROW_COUNT = "dagster/partition_row_count"
COUNT_LIMIT_ROWS = 2_000_000
"""Overlapping rows a materialization counts itself; about half a second."""

_SNAPSHOTS_SHOWN = 10
_EVENTS_LOOKED_AT = 20
_RUN_ID_SHOWN = 8
"""Characters of a run's id, as Dagster's pages show them."""

Metadata = dict[str, Any]
"""Metadata key → anything Dagster takes as a value."""


def column_schema(schema: TableSchema | Schema) -> dg.TableSchema:
    """Return the columns as Dagster shows them: Paimon types, nullability, keys, comments."""
    table = first_table_schema(schema, time_millis=0) if isinstance(schema, Schema) else schema
    roles = {"primary key": table.primary_keys, "partition key": table.partition_keys}
    columns = [
        dg.TableColumn(
            name=field.name,
            # Nullability has a badge of its own.
            type=str(not_null(field.type)).removesuffix(" NOT NULL"),
            description=field.description,
            constraints=dg.TableColumnConstraints(
                nullable=field.type.nullable,
                other=[role for role, names in roles.items() if field.name in names],
            ),
        )
        for field in table.fields
    ]
    texts = {"primary key": table.primary_keys, "partitioned by": table.partition_keys}
    keys = [f"{text} ({', '.join(names)})" for text, names in texts.items() if names]
    return dg.TableSchema(columns, constraints=dg.TableConstraints(other=keys))


def declared_columns(schema: Schema) -> Metadata:
    """Return the columns that a definition shows; none if a name has capital letters.

    With a schema on both sides the UI lower-cases all names; without, names show after the first
    run.
    """
    if any(field.name != field.name.lower() for field in schema.fields):
        return {}
    return {COLUMN_SCHEMA: column_schema(schema)}


def spec_metadata(
    table: Identifier, schema: Schema | None, *, warehouse: str | None, resource: str
) -> Metadata:
    """Return the metadata of a table's definition, as far as it is known without the catalog."""
    metadata: Metadata = {
        translator.TABLE_NAME: str(table),
        translator.STORAGE_KIND_KEY: translator.STORAGE_KIND,
    }
    if schema is not None:
        metadata |= declared_columns(schema)
        if EngineTraits.of_options(Options(schema.options)).columns is ColumnRules.GROUPS:
            names = ", ".join(field.name for field in schema.fields)
            metadata[translator.WRITES_COLUMNS] = names  # other assets may write the rest
    if resource != translator.DEFAULT_RESOURCE_KEY:
        metadata[translator.RESOURCE_KEY] = resource
    if warehouse is not None:
        metadata[translator.URI] = translator.uri_of(warehouse, table)
    return metadata


def table_metadata(table: Table) -> Metadata:
    return {
        translator.TABLE_NAME: table.name,
        translator.URI: table.path,
        COLUMN_SCHEMA: column_schema(table.schema),
        "paimon/schema_id": table.schema.id,
    }


def materialization_of(
    key: dg.AssetKey,
    text: str,
    metadata: Metadata,
    table: Table,
    added: Snapshot | None = None,
    *,
    rows_shown: int,
) -> dg.AssetMaterialization:
    """Return the event of an operation on a table, with its state afterwards.

    It shows the snapshot that added rows, if one did; else the newest, which added nothing. Costs
    as much as `snapshot_metadata`.
    """
    shown = added or table.latest_snapshot()
    state, version = state_of(table, shown, is_new=added is not None, rows_shown=rows_shown)
    return dg.AssetMaterialization(
        asset_key=key,
        description=text,
        metadata={**state, **metadata},
        tags={} if version is None else {DATA_VERSION: version.value},
    )


def state_of(
    table: Table, snapshot: Snapshot | None, *, is_new: bool = True, rows_shown: int = 0
) -> tuple[Metadata, dg.DataVersion | None]:
    """Return the metadata and the data version of a table at a snapshot, None before the first."""
    if snapshot is None:
        return table_metadata(table), None
    metadata = snapshot_metadata(table, snapshot, is_new=is_new)
    metadata |= preview_metadata(table, snapshot, rows_shown)
    return metadata, data_version_of(table, snapshot)


def snapshot_metadata(table: Table, snapshot: Snapshot, *, is_new: bool = True) -> Metadata:
    """Return metadata of a snapshot, the numbers that matter most first; Dagster plots them.

    Where nothing is new, the snapshot's additions were reported before.

    Cost:
        The snapshot's manifests, and at most `COUNT_LIMIT_ROWS` keys.
    """
    live = table.state.live_files(snapshot)
    counting = table.new_read_builder().at_snapshot(snapshot.id).plan_count()
    metadata: Metadata = {}
    if counting.rows_to_read <= COUNT_LIMIT_ROWS:
        metadata[ROW_COUNT] = counting.count(EmbeddedExecutor())
    metadata |= {
        **_sizes(table, snapshot, live),
        "paimon/added_rows": snapshot.delta_record_count if is_new else 0,
        SNAPSHOT_ID: snapshot.id,
        **table_metadata(table),
        "paimon/schema_id": snapshot.schema_id,
        "paimon/commit_kind": str(snapshot.commit_kind) if is_new else "none",
        "paimon/recent_snapshots": _recent_snapshots(table, snapshot),
    }
    behind = table.state.iceberg_behind()
    if behind is not None:  # commits that readers of Iceberg do not see yet
        metadata["paimon/iceberg_behind"] = behind
    before = snapshot_or_none(table, snapshot.id - 1)
    added: list[ManifestEntry] = []
    if not is_new:
        metadata["paimon/added_files"] = 0
    elif before is not None or snapshot.id == 1:
        earlier = {entry.identifier for entry in table.state.live_files(before)} if before else ()
        added = [entry for entry in live if entry.identifier not in earlier]
        metadata["paimon/added_files"] = len(added)
        if (rows := metadata.get("paimon/stored_rows")) is not None:
            rows_before = table.state.physical_rows(before) if before else 0
            metadata["paimon/added_rows"] = rows - rows_before
    return metadata | snapshot_files_metadata(table, snapshot, added)


def size_metadata(table: Table, snapshot: Snapshot) -> Metadata:
    """Return bytes and files of a snapshot, and rows where its manifests have them."""
    live = table.state.live_files(snapshot)
    counting = table.new_read_builder().at_snapshot(snapshot.id).plan_count()
    metadata = _sizes(table, snapshot, live)
    if not counting.rows_to_read:
        metadata[ROW_COUNT] = counting.count(EmbeddedExecutor())
    return metadata


def _sizes(table: Table, snapshot: Snapshot, live: Sequence[ManifestEntry]) -> Metadata:
    sizes: Metadata = {
        "dagster/size_bytes": sum(entry.file.file_size for entry in live),
        "paimon/total_files": len(live),
    }
    if not table.schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED):
        # There a row counts once for each file that has some of its columns.
        sizes["paimon/stored_rows"] = table.state.physical_rows(snapshot)
    return sizes


def partition_metadata(
    table: Table, snapshot: Snapshot, partitions: RunPartitions
) -> Mapping[str, Metadata]:
    """Return Dagster partition key → metadata of that partition.

    Empty if a column of the key is no partition key of the table, or too many rows would have to be
    merged to be counted.
    """
    fields = partitions.fields
    if any(field.name not in table.schema.partition_keys for field in fields):
        return {}
    read = table.new_read_builder().with_filter(partitions.predicate()).at_snapshot(snapshot.id)
    counting = read.plan_count()
    if counting.rows_to_read > COUNT_LIMIT_ROWS:
        return {}
    rows = {split.partition: 0 for split in counting.splits}
    executor = EmbeddedExecutor()
    for split in counting.splits:
        rows[split.partition] += (
            visible_rows(split)
            if is_counted(split)
            else executor.count_rows(counting.context, [split])
        )
    values = [table.state.partition_values(partition) for partition in rows]
    columns: list[Any] = [
        pa.array(
            [to_scalar(value[field.name], field.type) for value in values],
            to_arrow_type(field.type),
        )
        for field in fields
    ]
    numbers = partitions.numbers(columns)
    inside = numbers >= 0
    counts = np.zeros(len(partitions.keys), np.int64)
    np.add.at(counts, numbers[inside], np.fromiter(rows.values(), np.int64, len(rows))[inside])
    by_key = zip(partitions.keys, counts.tolist(), strict=True)
    return {key: {PARTITION_ROW_COUNT: count} for key, count in by_key}


def report_metadata(report: WriteReport, schema: TableSchema) -> Metadata:
    metadata: Metadata = {
        "paimon/rows_in": report.rows_in,
        "paimon/rows_written": report.rows_written,
    }
    options = schema.typed_options
    if (
        report.rows_ignored
        or options.get(opt.IGNORE_DELETE)
        or options.get(opt.IGNORE_UPDATE_BEFORE)
    ):
        metadata["paimon/rows_ignored"] = report.rows_ignored
    if report.sequence_wraps or options.get(opt.SEQUENCE_AUTO_PADDING):
        metadata["paimon/sequence_wraps"] = report.sequence_wraps
    return metadata


def data_version_of(table: Table, snapshot: Snapshot) -> dg.DataVersion:
    """Return the name of the commit that last changed a row, at or before `snapshot`.

    >>> data_version_of(table, table.latest_snapshot()).value.startswith("1-")
    True

    A compaction rewrites files, statistics describe rows, and neither changes any; so downstream
    assets stay fresh.

    Raises:
        FormatError, StorageError: Metadata is damaged, or the storage failed.
    """
    return dg.DataVersion(table.state.data_version(snapshot))


def newest_data(table: Table, newest: Snapshot) -> Snapshot | None:
    """Return the snapshot that last changed a row, at or before `newest`; None if it expired."""
    number = int(table.state.data_version(newest).partition("-")[0])
    return newest if number == newest.id else snapshot_or_none(table, number)


def _recent_snapshots(table: Table, newest: Snapshot) -> dg.TableMetadataValue:
    lines: list[Mapping[str, Any]] = []
    snapshot: Snapshot | None = newest
    rows = table.state.physical_rows(newest)
    while snapshot is not None and len(lines) < _SNAPSHOTS_SHOWN:
        before = snapshot_or_none(table, snapshot.id - 1)
        rows_before = rows - snapshot.delta_record_count
        if before is not None:
            rows_before = table.state.physical_rows(before)
        committed = dt.datetime.fromtimestamp(snapshot.time_millis / 1000, tz=dt.UTC)
        user = snapshot.commit_user
        if user.startswith("dagster:"):  # the run has a column of its own
            user = user.split(":", 2)[-1].strip(":")
        lines.append(
            {
                "snapshot": snapshot.id,
                "kind": str(snapshot.commit_kind),
                "committed (UTC)": f"{committed:%Y-%m-%d %H:%M:%S}",
                "schema": snapshot.schema_id,
                "added rows": rows - rows_before,
                "stored rows": rows,
                "run": snapshot.properties.get(RUN_ID, "")[:_RUN_ID_SHOWN],
                "by": user,
            }
        )
        snapshot, rows = before, rows_before
    return grid(lines)


def last_number(instance: dg.DagsterInstance, key: dg.AssetKey, name: str) -> int | None:
    """Return a number that an asset showed last, None if its newest materializations have none.

    A compaction is a materialization without the numbers of a write.
    """
    for record in instance.fetch_materializations(key, limit=_EVENTS_LOOKED_AT).records:
        materialization = record.asset_materialization
        value = materialization.metadata.get(name) if materialization is not None else None
        if isinstance(value, dg.IntMetadataValue):
            return value.value
    return None


def checked_snapshot(snapshot: Snapshot | None, key: str = SNAPSHOT_ID) -> Metadata:
    """Return the id of a check's snapshot as a text: a number would be plotted."""
    return {key: str(snapshot.id) if snapshot else "none"}


def snapshot_or_none(table: Table, snapshot_id: int) -> Snapshot | None:
    """Return a snapshot, None if it never was or has expired."""
    if snapshot_id < 1:
        return None
    try:
        return table.snapshot(snapshot_id)
    except NotFoundError:
        return None


DIFF = "paimon/schema_diff"
REPORT = "paimon/overflow_report"
EXAMPLES = "paimon/overflow_examples"
CHANGES = "paimon/schema_changes"
STORED_ROWS = (
    "All stored rows count, also those that a newer row or a deletion hides: reads cast them."
)


def schema_change_metadata(plan: SchemaChangePlan, root: str, *, show: bool) -> Metadata:
    """Return a change's effect: the diff, and the fate of values; files are named below `root`."""
    casts: dict[int | None, str] = {column.field_id: column.cast for column in plan.columns}
    diff = {DIFF: diff_table(plan.differences, casts)} if plan.differences else {}
    return {
        **diff,
        **loss_metadata(plan, root, show=show),
        "paimon/schema_before": plan.base.id,
        CHANGES: dg.MetadataValue.json(changes_to_json(plan.changes)),
    }


def diff_table(
    lines: Iterable[SchemaDifference], casts: Mapping[int | None, str] | None = None
) -> dg.TableMetadataValue:
    """Return differences of schemas, at least one; with casts by the id of the field."""
    return grid(
        {
            "what": line.subject,
            "change": line.change,
            "before": line.before,
            "after": line.after,
            **({} if casts is None else {"cast": casts.get(line.field_id, "")}),
            "field id": line.field_id,
        }
        for line in lines
    )


def loss_metadata(plan: SchemaChangePlan, root: str, *, show: bool) -> Metadata:
    """Return the fate of stored values; files are named below `root`."""
    note = {"paimon/overflow_note": STORED_ROWS} if plan.columns else {}
    return {**columns_metadata(plan.columns, root, show=show), **note}


def columns_metadata(columns: Sequence[ColumnReport], root: str, *, show: bool) -> Metadata:
    """Return a line for each column that is cast, and examples of values that are lost.

    Files are named below `root`.
    """
    metadata: Metadata = {
        "paimon/lost_values": sum(column.lost for column in columns),
        "paimon/file_columns_read": sum(column.files_read for column in columns),
    }
    if columns:
        kinds = [loss for loss in Loss if any(column.counts.get(loss) for column in columns)]
        metadata[REPORT] = grid(_report_line(column, kinds) for column in columns)
    examples = [
        {
            "column": column.column,
            "value": _show(example.lost.value, show=show),
            "what happens": example.lost.loss.value,
            "becomes": _show(example.lost.becomes, show=show),
            "file": example.path.removeprefix(f"{root.rstrip('/')}/"),
        }
        for column in columns
        for example in column.examples
    ]
    return metadata | ({EXAMPLES: grid(examples)} if examples else {})


def _show(value: str | None, *, show: bool) -> str | None:
    return value if show or value is None else MASKED


def _report_line(column: ColumnReport, kinds: Sequence[Loss]) -> Mapping[str, Any]:
    return {
        "column": column.column,
        "before": column.before,
        "after": column.after,
        "stored values": column.rows,
        "lost": column.lost,
        "counted": "exactly" if column.is_exact else "at least",
        **{loss.value: column.counts.get(loss, 0) for loss in kinds},
        "cast": column.cast,
        "files kept by statistics": column.files_kept,
        "files lost by statistics": column.files_lost,
        "files read": column.files_read,
    }


def schema_change_text(plan: SchemaChangePlan) -> str:
    """Return one line on the effect of a change on schema and values."""
    lines = len(plan.differences)
    if not lines:
        return "Nothing would change."
    values = "; ".join(str(column) for column in plan.columns) or "no stored value is cast"
    return f"{counted(lines, 'schema difference')}; {values}."
