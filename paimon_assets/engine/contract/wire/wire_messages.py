"""WriteResult as bytes: the report in the header, then messages as Java file rows."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.wire.wire_frame import (
    FILE_ARITY,
    base64_text,
    header,
    opened,
    read_files,
    read_optional_int,
    write_files,
    write_optional_int,
)
from paimon_assets.engine.spec.metadata.index_file import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
)
from paimon_assets.engine.spec.paths import plain_name, straight_path


def dump_write_result(result: WriteResult) -> bytes:
    """Encode what a write task returns: report in the header, messages as Java file rows."""
    report = result.report
    out = header(
        "write-result",
        {
            "rowsIn": report.rows_in,
            "rowsIgnored": report.rows_ignored,
            "rowsWritten": report.rows_written,
            "sequenceWraps": report.sequence_wraps,
        },
    )
    out.write_int(len(result.messages))
    for message in result.messages:
        data, compact = message.data_increment, message.compact_increment
        out.write_bytes(message.partition)
        out.write_int(message.bucket)
        write_optional_int(out, message.total_buckets)
        write_optional_int(out, message.keys_known_at)
        for files in (data.new_files, data.deleted_files, data.changelog_files):
            write_files(out, files)
        for files in (compact.compact_before, compact.compact_after, compact.changelog_files):
            write_files(out, files)
        for indexes in (data.new_index_files, data.deleted_index_files):
            _write_indexes(out, indexes)
        for indexes in (compact.new_index_files, compact.deleted_index_files):
            _write_indexes(out, indexes)
    return out.to_bytes()


def load_write_result(data: bytes) -> WriteResult:
    """Inverse of `dump_write_result`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "write-result") as (members, source):
        report = WriteReport(
            rows_in=members["rowsIn"],
            rows_ignored=members["rowsIgnored"],
            rows_written=members["rowsWritten"],
            sequence_wraps=members["sequenceWraps"],
        )
        messages = tuple(_read_message(source) for _ in range(source.read_int()))
    return WriteResult(messages=messages, report=report)


def _read_message(source: DataInput) -> CommitMessage:
    partition, bucket = source.read_bytes(), source.read_int()
    total_buckets, keys_known_at = read_optional_int(source), read_optional_int(source)
    lists = [read_files(source, FILE_ARITY) for _ in range(6)]
    indexes = [_read_indexes(source) for _ in range(4)]
    data = DataIncrement(
        new_files=lists[0],
        deleted_files=lists[1],
        changelog_files=lists[2],
        new_index_files=indexes[0],
        deleted_index_files=indexes[1],
    )
    compact = CompactIncrement(
        compact_before=lists[3],
        compact_after=lists[4],
        changelog_files=lists[5],
        new_index_files=indexes[2],
        deleted_index_files=indexes[3],
    )
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        data_increment=data,
        compact_increment=compact,
        keys_known_at=keys_known_at,
    )


def _write_indexes(out: DataOutput, indexes: Sequence[IndexFileMeta]) -> None:
    out.write_bytes(json.dumps([index_json(index) for index in indexes]).encode())


def _read_indexes(source: DataInput) -> tuple[IndexFileMeta, ...]:
    return tuple(index_of(json_) for json_ in json.loads(source.read_bytes()))


def index_json(index: IndexFileMeta) -> dict[str, Any]:
    """Return an index file as JSON."""
    vectors, covers = index.deletion_vectors, index.global_index
    return {
        "type": index.index_type,
        "name": index.file_name,
        "size": index.file_size,
        "rows": index.row_count,
        "externalPath": index.external_path,
        "vectors": None
        if vectors is None
        else [[v.data_file_name, v.offset, v.length, v.cardinality] for v in vectors],
        "global": None if covers is None else _global_json(covers),
    }


def index_of(json_: dict[str, Any]) -> IndexFileMeta:
    """Inverse of `index_json`."""
    vectors, covers, external = json_["vectors"], json_["global"], json_["externalPath"]
    return IndexFileMeta(
        index_type=json_["type"],
        file_name=plain_name(json_["name"]),
        file_size=json_["size"],
        row_count=json_["rows"],
        external_path=None if external is None else straight_path(external),
        deletion_vectors=None
        if vectors is None
        else tuple(
            DeletionVectorMeta(data_file_name=name, offset=offset, length=length, cardinality=count)
            for name, offset, length, count in vectors
        ),
        global_index=None if covers is None else _global_of(covers),
    )


def _global_json(covers: GlobalIndexMeta) -> dict[str, Any]:
    return {
        "start": covers.row_range_start,
        "end": covers.row_range_end,
        "field": covers.index_field_id,
        "extra": covers.extra_field_ids,
        "index": None if covers.index_meta is None else base64_text(covers.index_meta),
        "source": None if covers.source_meta is None else base64_text(covers.source_meta),
    }


def _global_of(json_: dict[str, Any]) -> GlobalIndexMeta:
    extra, index, source = json_["extra"], json_["index"], json_["source"]
    return GlobalIndexMeta(
        row_range_start=json_["start"],
        row_range_end=json_["end"],
        index_field_id=json_["field"],
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=None if index is None else base64.b64decode(index),
        source_meta=None if source is None else base64.b64decode(source),
    )
