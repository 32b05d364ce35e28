"""The values of the contract as versioned bytes: what crosses between processes.

    DataSplit                   Java's binary form, version 8 written, 2 to 8 read
    contexts, results, errors   length and JSON header {"what", "version", …} ┊ Java file rows

Source: `org.apache.paimon.table.source.DataSplit` (serialize, deserialize).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from paimon_assets.engine.codec.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.codec.java_stream import DataInput, DataOutput
from paimon_assets.engine.codec.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import BucketState, ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.errors import (
    ERROR_CLASSES,
    FormatError,
    InvalidInputError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.data_file import DataFileMeta
from paimon_assets.engine.spec.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
)
from paimon_assets.engine.spec.schema import TableSchema

WIRE_VERSION = 1
"""Version of the engine's own encodings; both sides of a job run the same one."""

SPLIT_MAGIC = -2_394_839_472_490_812_314
WRAPPED_SPLIT_MAGIC = 0x53504C49545F5631
SPLIT_VERSION = 8
_FILE_ARITY = {2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: 20}
_CARDINALITY_SINCE = 4
_TOTAL_BUCKETS_SINCE = 6
_UNKNOWN_CARDINALITY = -1


def dump_split(split: DataSplit) -> bytes:
    """Encode a split as Java Paimon 1.3 to 2.0 does (version 8)."""
    out = DataOutput()
    out.write_long(SPLIT_MAGIC)
    out.write_int(SPLIT_VERSION)
    out.write_long(split.snapshot_id)
    out.write_bytes(split.partition)
    out.write_int(split.bucket)
    out.write_utf(split.bucket_path)
    _write_optional_int(out, split.total_buckets)
    _write_files(out, ())
    _write_deletions(out, None)
    _write_files(out, split.data_files)
    _write_deletions(out, split.deletion_files)
    out.write_boolean(split.is_streaming)
    out.write_boolean(split.raw_convertible)
    return out.to_bytes()


def load_split(data: bytes) -> DataSplit:
    """Decode a split of Java Paimon 0.9 to 2.0 (versions 2 to 8).

    Raises:
        FormatError: Damaged bytes.
        UnsupportedFeatureError: Version 1, a version above 8, another kind of split, or a split
            that carries files of before a compaction.
    """
    source = DataInput(data)
    version = _split_version(source)
    snapshot_id = source.read_long()
    partition = source.read_bytes()
    bucket = source.read_int()
    bucket_path = source.read_utf()
    total_buckets = _read_optional_int(source) if version >= _TOTAL_BUCKETS_SINCE else None
    if _read_files(source, _FILE_ARITY[version]) or _read_deletions(source, version):
        raise UnsupportedFeatureError(
            f"The split of bucket {bucket} of snapshot {snapshot_id} carries files of before a "
            "compaction (before-files of a streaming diff); they are not read.",
            kind="split-before-files",
        )
    split = DataSplit(
        snapshot_id=snapshot_id,
        partition=partition,
        bucket=bucket,
        bucket_path=bucket_path,
        total_buckets=total_buckets,
        data_files=_read_files(source, _FILE_ARITY[version]),
        deletion_files=_read_deletions(source, version),
        is_streaming=source.read_boolean(),
        raw_convertible=source.read_boolean(),
    )
    if not source.at_end():
        raise FormatError("Bytes are left behind a split.", kind="wire")
    return split


def _split_version(source: DataInput) -> int:
    magic = source.read_long()
    if magic == WRAPPED_SPLIT_MAGIC:
        raise UnsupportedFeatureError(
            "A wrapped split (SPLIT_V1 of Paimon 2.0) is not read; pass the DataSplit inside.",
            kind="split-version",
        )
    version = source.read_int() if magic == SPLIT_MAGIC else 1
    if version not in _FILE_ARITY:
        raise UnsupportedFeatureError(
            f"DataSplit version {version} is not read; versions 2 to {SPLIT_VERSION} are.",
            kind="split-version",
            details={"version": version},
        )
    return version


def _write_optional_int(out: DataOutput, value: int | None) -> None:
    out.write_boolean(value is not None)
    if value is not None:
        out.write_int(value)


def _read_optional_int(source: DataInput) -> int | None:
    return source.read_int() if source.read_boolean() else None


def _write_files(out: DataOutput, files: Sequence[DataFileMeta]) -> None:
    out.write_int(len(files))
    for file in files:
        out.write_bytes(file_to_row(file))


def _read_files(source: DataInput, arity: int) -> tuple[DataFileMeta, ...]:
    count = source.read_int()
    return tuple(file_from_row(source.read_bytes(), arity) for _ in range(count))


def _write_deletions(out: DataOutput, deletions: Sequence[DeletionFile | None] | None) -> None:
    out.write_boolean(deletions is not None)
    if deletions is None:
        return
    out.write_int(len(deletions))
    for deletion in deletions:
        out.write_boolean(deletion is not None)
        if deletion is not None:
            cardinality = deletion.cardinality
            out.write_utf(deletion.path)
            out.write_long(deletion.offset)
            out.write_long(deletion.length)
            out.write_long(_UNKNOWN_CARDINALITY if cardinality is None else cardinality)


def _read_deletions(source: DataInput, version: int) -> tuple[DeletionFile | None, ...] | None:
    if not source.read_boolean():
        return None
    count = source.read_int()
    return tuple(
        _read_deletion(source, version) if source.read_boolean() else None for _ in range(count)
    )


def _read_deletion(source: DataInput, version: int) -> DeletionFile:
    path, offset, length = source.read_utf(), source.read_long(), source.read_long()
    known = source.read_long() if version >= _CARDINALITY_SINCE else _UNKNOWN_CARDINALITY
    cardinality = None if known == _UNKNOWN_CARDINALITY else known
    return DeletionFile(path=path, offset=offset, length=length, cardinality=cardinality)


def _header(what: str, members: Mapping[str, Any]) -> DataOutput:
    out = DataOutput()
    header = {"what": what, "version": WIRE_VERSION, **members}
    out.write_bytes(json.dumps(header, separators=(",", ":")).encode())
    return out


def _open(data: bytes, what: str) -> tuple[dict[str, Any], DataInput]:
    source = DataInput(data)
    try:
        members = json.loads(source.read_bytes())
    except ValueError as error:
        raise FormatError(f"The header of a {what} is damaged: {error}.", kind="wire") from error
    found = (members.get("what"), members.get("version")) if isinstance(members, dict) else None
    if found != (what, WIRE_VERSION):
        raise FormatError(
            f"Expected a {what} of version {WIRE_VERSION}, got {found}; driver and workers must "
            "run the same version of paimon-assets.",
            kind="wire",
        )
    return members, source


def dump_read_context(context: ReadContext) -> bytes:
    """Encode what a reader must know; holds the storage options, credentials included."""
    predicate = context.predicate
    members = {
        "table": context.table,
        "schema": _schema_text(context.schema),
        "fileSchemas": [_schema_text(schema) for schema in context.file_schemas],
        "columns": context.columns,
        "predicate": None if predicate is None else _predicate_json(predicate),
        "fileIO": _file_io_json(context.file_io),
    }
    return _header("read-context", members).to_bytes()


def load_read_context(data: bytes) -> ReadContext:
    """Undo `dump_read_context`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    members, _ = _open(data, "read-context")
    try:
        predicate = members["predicate"]
        return ReadContext(
            table=members["table"],
            schema=_schema(members["schema"]),
            file_schemas=tuple(map(_schema, members["fileSchemas"])),
            columns=tuple(members["columns"]),
            predicate=None if predicate is None else _predicate(predicate),
            file_io=_file_io(members["fileIO"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged("read-context", error) from error


def dump_write_context(context: WriteContext) -> bytes:
    """Encode what a writer must know; holds the storage options, credentials included."""
    members = {
        "table": context.table,
        "tablePath": context.table_path,
        "schema": _schema_text(context.schema),
        "bucketStates": [
            [_base64(state.partition), state.bucket, state.max_sequence_number]
            for state in context.bucket_states
        ],
        "partitionBuckets": [
            [_base64(partition), buckets] for partition, buckets in context.partition_buckets
        ],
        "fileIO": _file_io_json(context.file_io),
    }
    return _header("write-context", members).to_bytes()


def load_write_context(data: bytes) -> WriteContext:
    """Undo `dump_write_context`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    members, _ = _open(data, "write-context")
    try:
        return WriteContext(
            table=members["table"],
            table_path=members["tablePath"],
            schema=_schema(members["schema"]),
            bucket_states=tuple(
                BucketState(
                    partition=base64.b64decode(partition), bucket=bucket, max_sequence_number=number
                )
                for partition, bucket, number in members["bucketStates"]
            ),
            partition_buckets=tuple(
                (base64.b64decode(partition), buckets)
                for partition, buckets in members["partitionBuckets"]
            ),
            file_io=_file_io(members["fileIO"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged("write-context", error) from error


def dump_write_result(result: WriteResult) -> bytes:
    """Encode what a write task returns: report in the header, messages as Java file rows."""
    report = result.report
    out = _header(
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
        _write_optional_int(out, message.total_buckets)
        for files in (data.new_files, data.deleted_files, data.changelog_files):
            _write_files(out, files)
        for files in (compact.compact_before, compact.compact_after, compact.changelog_files):
            _write_files(out, files)
    return out.to_bytes()


def load_write_result(data: bytes) -> WriteResult:
    """Undo `dump_write_result`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    members, source = _open(data, "write-result")
    try:
        report = WriteReport(
            rows_in=members["rowsIn"],
            rows_ignored=members["rowsIgnored"],
            rows_written=members["rowsWritten"],
            sequence_wraps=members["sequenceWraps"],
        )
    except KeyError as error:
        raise _damaged("write-result", error) from error
    messages = tuple(_read_message(source) for _ in range(source.read_int()))
    return WriteResult(messages=messages, report=report)


def _read_message(source: DataInput) -> CommitMessage:
    partition, bucket = source.read_bytes(), source.read_int()
    total_buckets = _read_optional_int(source)
    arity = _FILE_ARITY[SPLIT_VERSION]
    lists = [_read_files(source, arity) for _ in range(6)]
    data = DataIncrement(new_files=lists[0], deleted_files=lists[1], changelog_files=lists[2])
    compact = CompactIncrement(
        compact_before=lists[3], compact_after=lists[4], changelog_files=lists[5]
    )
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        data_increment=data,
        compact_increment=compact,
    )


def dump_error(error: PaimonError) -> bytes:
    """Encode an error as its class, message, kind and details."""
    members = {
        "class": type(error).__name__,
        "message": error.message,
        "kind": error.kind,
        "details": error.details,
    }
    return _header("error", members).to_bytes()


def load_error(data: bytes) -> PaimonError:
    """Undo `dump_error`; an unknown class becomes a plain PaimonError.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    members, _ = _open(data, "error")
    try:
        error_class = ERROR_CLASSES.get(members["class"], PaimonError)
        return error_class.of_parts(members["message"], members["kind"], members["details"])
    except (KeyError, TypeError) as error:
        raise _damaged("error", error) from error


def dump_predicate(predicate: Predicate) -> bytes:
    """Encode a bound predicate with the exact types of its literals.

    Raises:
        InvalidInputError: A literal is not an internal value: the predicate was not bound.
    """
    return _header("predicate", {"predicate": _predicate_json(predicate)}).to_bytes()


def load_predicate(data: bytes) -> Predicate:
    """Undo `dump_predicate`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    members, _ = _open(data, "predicate")
    try:
        return _predicate(members["predicate"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged("predicate", error) from error


def _damaged(what: str, error: Exception) -> FormatError:
    return FormatError(f"A {what} is damaged: {error!r}.", kind="wire")


def _predicate_json(predicate: Predicate) -> dict[str, Any]:
    match predicate:
        case And(children=children):
            return {"is": "and", "of": [_predicate_json(child) for child in children]}
        case Or(children=children):
            return {"is": "or", "of": [_predicate_json(child) for child in children]}
        case Comparison(field=field, op=op, literal=literal):
            return {"is": "compare", "field": field, "op": op.value, "to": _literal_json(literal)}
        case In(field=field, literals=literals, negated=negated):
            texts = [_literal_json(literal) for literal in literals]
            return {"is": "in", "field": field, "of": texts, "not": negated}
        case IsNull(field=field, negated=negated):
            return {"is": "null", "field": field, "not": negated}
        case StartsWith(field=field, prefix=prefix):
            return {"is": "prefix", "field": field, "to": prefix}
        case _:
            assert_never(predicate)


def _predicate(json_: Mapping[str, Any]) -> Predicate:
    match json_["is"]:
        case "and":
            return And(tuple(map(_predicate, json_["of"])))
        case "or":
            return Or(tuple(map(_predicate, json_["of"])))
        case "compare":
            return Comparison(json_["field"], CompareOp(json_["op"]), _literal(json_["to"]))
        case "in":
            return In(json_["field"], tuple(map(_literal, json_["of"])), json_["not"])
        case "null":
            return IsNull(json_["field"], json_["not"])
        case "prefix":
            return StartsWith(json_["field"], json_["to"])
        case other:
            raise ValueError(f"unknown predicate '{other}'")


def _literal_json(literal: Any) -> list[Any]:
    """Return [type, value]; floats as hexadecimal text, which is exact and knows NaN."""
    match literal:
        case None | bool() | int() | str():
            return ["plain", literal]
        case float():
            return ["float", literal.hex()]
        case bytes():
            return ["bytes", _base64(literal)]
        case Decimal():
            return ["decimal", str(literal)]
        case _:
            raise InvalidInputError(
                f"{literal!r} is no internal value; bind the predicate first.", kind="literal"
            )


def _literal(json_: Sequence[Any]) -> Any:
    kind, value = json_
    match kind:
        case "plain":
            return value
        case "float":
            return float.fromhex(value)
        case "bytes":
            return base64.b64decode(value)
        case "decimal":
            return Decimal(value)
        case other:
            raise ValueError(f"unknown literal type '{other}'")


def _schema_text(schema: TableSchema) -> str:
    return schema_to_json(schema).decode()


def _schema(text: str) -> TableSchema:
    return schema_from_json(text.encode(), "schema of a context")


def _file_io_json(spec: FileIOSpec) -> dict[str, Any]:
    return {"scheme": spec.scheme, "options": dict(spec.options)}


def _file_io(json_: Mapping[str, Any]) -> FileIOSpec:
    return FileIOSpec(scheme=json_["scheme"], options=json_["options"])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
