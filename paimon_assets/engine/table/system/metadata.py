"""System tables of snapshots, schemas and names: the content of small JSON files.

Columns and types are those of Paimon 2.0; texts of Java collections (`[a, b]`) are kept.
Source: `org.apache.paimon.table.system.SnapshotsTable`, `SchemasTable`, `OptionsTable`,
`TagsTable`, `BranchesTable`, `ConsumersTable`, `StatisticTable`, `AggregationFieldsTable`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.time_travel import travel_by_options
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.types.data_types import RowType
from paimon_assets.engine.spec.types.type_text import field_to_json, parse_type
from paimon_assets.engine.spec.words import duration_text
from paimon_assets.engine.table.segments.segment_status import segment_rows
from paimon_assets.engine.table.segments.segments import Segments

Rows = Iterator[dict[str, Any]]


def columns(text: str) -> pa.Schema:
    """Return columns that are written as in CREATE TABLE, by their Arrow types."""
    return to_arrow_schema(cast("RowType", parse_type(f"ROW<{text}>")).fields)


def answer(names: str, rows: Iterable[Sequence[object]]) -> pa.Table:
    """Return rows as a small table; its columns are written as in CREATE TABLE."""
    schema = columns(names)
    dicts = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(dicts, schema=schema)


def texts(name: str, values: Iterable[str]) -> pa.Table:
    """Return one column of texts."""
    return answer(f"{name} STRING", [[value] for value in values])


SNAPSHOTS = columns(
    "snapshot_id BIGINT, schema_id BIGINT, commit_user STRING, commit_identifier BIGINT, "
    "commit_kind STRING, commit_time TIMESTAMP(3), base_manifest_list STRING, "
    "delta_manifest_list STRING, changelog_manifest_list STRING, total_record_count BIGINT, "
    "delta_record_count BIGINT, changelog_record_count BIGINT, watermark BIGINT, "
    "next_row_id BIGINT, operation STRING, writer_version STRING"
)
SCHEMAS = columns(
    "schema_id BIGINT, fields STRING, partition_keys STRING, primary_keys STRING, options STRING, "
    "comment STRING, update_time TIMESTAMP(3)"
)
OPTIONS = columns("key STRING, value STRING")
TAGS = columns(
    "tag_name STRING, snapshot_id BIGINT, schema_id BIGINT, commit_time TIMESTAMP(3), "
    "record_count BIGINT, create_time TIMESTAMP(3), time_retained STRING"
)
BRANCHES = columns("branch_name STRING, create_time TIMESTAMP(3)")
CONSUMERS = columns("consumer_id STRING, next_snapshot_id BIGINT")
STATISTICS = columns(
    "snapshot_id BIGINT, schema_id BIGINT, mergedRecordCount BIGINT, mergedRecordSize BIGINT, "
    "colstat STRING"
)
AGGREGATION_FIELDS = columns(
    "field_name STRING, field_type STRING, function STRING, function_options STRING, comment STRING"
)
SEGMENTS = columns(
    "segment_id BIGINT, status STRING, load_start_time TIMESTAMP(3), load_end_time TIMESTAMP(3), "
    "time_taken_ms BIGINT, partition STRING, format STRING, path STRING, folder STRING, "
    "file_count BIGINT, row_count BIGINT, data_size BIGINT, readers STRING, schema_id BIGINT, "
    "snapshot_id BIGINT, merged_to_id BIGINT, options STRING"
)
"""Loads of the table's own have no path and folder."""
_FIELDS_PREFIX = "fields"


def snapshot_of(store: FileStore) -> Snapshot | None:
    """Return the snapshot of the time-travel target, else the newest."""
    return travel_by_options(store) or store.snapshots.latest()


def snapshots(store: FileStore) -> Rows:
    """Yield one row a snapshot, oldest first."""
    for snapshot in store.snapshots.all():
        yield {
            **{name: getattr(snapshot, name, None) for name in SNAPSHOTS.names},
            "snapshot_id": snapshot.id,
            "commit_kind": str(snapshot.commit_kind),
            "commit_time": snapshot.time_millis,
            "operation": snapshot.unknown.get("operation"),
            "writer_version": snapshot.writer_version,
        }


def schemas(store: FileStore) -> Rows:
    """Yield one row a schema, oldest first; lists are JSON texts."""
    for number in store.schemas.list_ids():
        schema = store.schemas.schema(number)
        yield {
            "schema_id": schema.id,
            "fields": _json_text([field_to_json(field) for field in schema.fields]),
            "partition_keys": _json_text(list(schema.partition_keys)),
            "primary_keys": _json_text(list(schema.primary_keys)),
            "options": _json_text(shown_options(schema.options)),
            "comment": schema.comment,
            "update_time": schema.time_millis,
        }


def options(store: FileStore) -> Rows:
    """Yield one row an option that is set, dynamic ones too, by key; secrets are hidden."""
    yield from option_rows(shown_options(store.schema.options))


def option_rows(shown: Mapping[str, str]) -> Rows:
    """Yield one row an option, by key."""
    for key, value in sorted(shown.items()):
        yield {"key": key, "value": value}


def tags(store: FileStore) -> Rows:
    """Yield one row a tag, by name."""
    for tag in store.tags.list():
        retained = tag.time_retained
        yield {
            "tag_name": tag.name,
            "snapshot_id": tag.snapshot.id,
            "schema_id": tag.snapshot.schema_id,
            "commit_time": tag.snapshot.time_millis,
            "record_count": tag.snapshot.total_record_count,
            "create_time": tag.create_time,
            "time_retained": None if retained is None else duration_text(retained),
        }


def branches(store: FileStore) -> Rows:
    """Yield one row a branch, by name; main is not listed."""
    for name, created_ms in store.branches.list().items():
        yield {"branch_name": name, "create_time": created_ms}


def consumers(store: FileStore) -> Rows:
    """Yield one row a consumer, by name."""
    for name, following in store.consumers.list().items():
        yield {"consumer_id": name, "next_snapshot_id": following}


def segments(store: FileStore) -> Rows:
    """Yield one row a segment or load, by id; see `segment_rows`."""
    yield from segment_rows(Segments(store=store).listed())


def statistics(store: FileStore) -> Rows:
    """Yield the statistics of ANALYZE that the snapshot names, if any."""
    snapshot = snapshot_of(store)
    if snapshot is None or snapshot.statistics is None:
        return
    path = store.paths.statistics(snapshot.statistics)
    try:
        document = json.loads(store.file_io.read_bytes(path))
        yield {
            "snapshot_id": _number(document["snapshotId"]),
            "schema_id": _number(document["schemaId"]),
            "mergedRecordCount": _number(document.get("mergedRecordCount")),
            "mergedRecordSize": _number(document.get("mergedRecordSize")),
            "colstat": _json_text(document.get("colStats") or {}),
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"{path}: not a statistics file ({error}).", kind="metadata-json", path=path
        ) from error


def aggregation_fields(store: FileStore) -> Rows:
    """Yield one row a column, with all options that begin with `fields.<column>.`."""
    for field in store.schema.fields:
        options = {
            key: value
            for key, value in sorted(store.schema.options.items())
            if (parts := key.split("."))[0] == _FIELDS_PREFIX
            and len(parts) > 2
            and parts[1] == field.name
        }
        yield {
            "field_name": field.name,
            "field_type": str(field.type),
            "function": f"[{', '.join(options.values())}]",
            "function_options": f"[{', '.join(options)}]",
            "comment": field.description,
        }


def _number(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
        raise ValueError(f"{str(value)[:40]} is no count")
    return value


def _json_text(value: Any) -> str:
    """Return JSON; ValueError for half of a surrogate pair, which no text can hold."""
    return json.dumps(value, default=str, ensure_ascii=False).encode().decode()
