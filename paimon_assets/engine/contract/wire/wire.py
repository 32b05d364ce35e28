"""The values of the contract as versioned bytes: what crosses between processes.

    DataSplit           Java's binary form, versions 2 to 8; several stand one behind the other
    contexts, errors    length and JSON header {"what", "version", …} (`wire_frame`)
    write results       the same, then Java file rows (`wire_messages`)

Source: `org.apache.paimon.table.source.DataSplit` (serialize, deserialize).
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.context import (
    BucketState,
    HashIndexState,
    KeyRead,
    ReadContext,
    WriteContext,
)
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.wire.wire_frame import (
    FILE_ARITY,
    base64_text,
    file_io_json,
    file_io_of,
    header,
    opened,
    read_files,
    read_optional_int,
    schema_of,
    schema_text,
    write_files,
    write_optional_int,
)
from paimon_assets.engine.contract.wire.wire_messages import index_json, index_of
from paimon_assets.engine.contract.wire.wire_predicate import predicate_json, predicate_of
from paimon_assets.engine.errors import (
    ERROR_CLASSES,
    FormatError,
    InvalidInputError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.segments.text_options import TextOptions

SPLIT_MAGIC = -2_394_839_472_490_812_314
WRAPPED_SPLIT_MAGIC = 0x53504C49545F5631
SPLIT_VERSION = 8
_FILE_ARITY = {2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: FILE_ARITY}
_CARDINALITY_SINCE = 4
_TOTAL_BUCKETS_SINCE = 6
_UNKNOWN_CARDINALITY = -1


def dump_split(split: DataSplit, version: int = SPLIT_VERSION) -> bytes:
    """Encode a split as Java Paimon does: 1.3 to 2.0 version 8, older releases 2 to 7.

    Raises:
        InvalidInputError: There is no such version, or it has no place for what a reader must know.
    """
    if version not in _FILE_ARITY:
        raise InvalidInputError(
            f"DataSplit version {version} is not written; versions 2 to {SPLIT_VERSION} are.",
            kind="split-version",
            details={"version": version},
        )
    arity = _FILE_ARITY[version]
    out = DataOutput()
    out.write_long(SPLIT_MAGIC)
    out.write_int(version)
    out.write_long(split.snapshot_id)
    out.write_bytes(split.partition)
    out.write_int(split.bucket)
    out.write_utf(split.bucket_path)
    if version >= _TOTAL_BUCKETS_SINCE:
        write_optional_int(out, split.total_buckets)
    write_files(out, split.before_files, arity)
    _write_deletions(out, split.before_deletion_files, version)
    write_files(out, split.data_files, arity)
    _write_deletions(out, split.deletion_files, version)
    out.write_boolean(split.is_streaming)
    out.write_boolean(split.raw_convertible)
    return out.to_bytes()


def load_split(data: bytes) -> DataSplit:
    """Decode a split of Java Paimon 0.9 to 2.0 (versions 2 to 8).

    Raises:
        FormatError: Damaged bytes.
        UnsupportedFeatureError: Version 1, a version above 8, another kind of split, or a
            streaming split that carries files of before a compaction.
    """
    source = DataInput(data)
    split = _read_split(source)
    if not source.at_end():
        raise FormatError("Bytes are left behind a split.", kind="wire")
    return split


def load_splits(data: bytes) -> tuple[DataSplit, ...]:
    """Decode splits that stand one behind the other; raises as `load_split`."""
    source, splits = DataInput(data), []
    while not source.at_end():
        splits.append(_read_split(source))
    return tuple(splits)


def _read_split(source: DataInput) -> DataSplit:
    version = _split_version(source)
    snapshot_id = source.read_long()
    partition = source.read_bytes()
    bucket = source.read_int()
    bucket_path = source.read_utf()
    total_buckets = read_optional_int(source) if version >= _TOTAL_BUCKETS_SINCE else None
    split = DataSplit(
        snapshot_id=snapshot_id,
        partition=partition,
        bucket=bucket,
        bucket_path=bucket_path,
        total_buckets=total_buckets,
        before_files=read_files(source, _FILE_ARITY[version]),
        before_deletion_files=_read_deletions(source, version),
        data_files=read_files(source, _FILE_ARITY[version]),
        deletion_files=_read_deletions(source, version),
        is_streaming=source.read_boolean(),
        raw_convertible=source.read_boolean(),
    )
    if split.is_streaming and split.before_files:
        raise UnsupportedFeatureError(
            f"The split of bucket {bucket} of snapshot {snapshot_id} carries files of before a "
            "compaction (before-files of a streaming diff); they are not read.",
            kind="split-before-files",
        )
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


def _write_deletions(
    out: DataOutput, deletions: Sequence[DeletionFile | None] | None, version: int
) -> None:
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
            if version >= _CARDINALITY_SINCE:
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


def dump_read_context(context: ReadContext) -> bytes:
    """Encode what a reader must know; holds the storage options, credentials included."""
    predicate = context.predicate
    members = {
        "table": context.table,
        "schema": schema_text(context.schema),
        "fileSchemas": [schema_text(schema) for schema in context.file_schemas],
        "columns": context.columns,
        "predicate": None if predicate is None else predicate_json(predicate),
        "fileIO": file_io_json(context.file_io),
        "textOptions": {name: asdict(text) for name, text in context.text_options.items()},
        "fallback": None if context.fallback is None else schema_text(context.fallback),
    }
    return header("read-context", members).to_bytes()


def load_read_context(data: bytes) -> ReadContext:
    """Inverse of `dump_read_context`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "read-context") as (members, _):
        predicate = members["predicate"]
        return ReadContext(
            table=members["table"],
            schema=schema_of(members["schema"]),
            file_schemas=tuple(map(schema_of, members["fileSchemas"])),
            columns=tuple(members["columns"]),
            predicate=None if predicate is None else predicate_of(predicate),
            file_io=file_io_of(members["fileIO"]),
            text_options={
                name: _text_options(text) for name, text in members["textOptions"].items()
            },
            fallback=None if members["fallback"] is None else schema_of(members["fallback"]),
        )


def _text_options(members: Mapping[str, Any]) -> TextOptions:
    names = members["names"]
    return TextOptions(**{**members, "names": None if names is None else tuple(names)})


def dump_write_context(context: WriteContext) -> bytes:
    """Encode what a writer must know; holds the storage options, credentials included."""
    members = {
        "table": context.table,
        "tablePath": context.table_path,
        "schema": schema_text(context.schema),
        "bucketStates": [
            [base64_text(state.partition), state.bucket, state.max_sequence_number]
            for state in context.bucket_states
        ],
        "partitionBuckets": [
            [base64_text(partition), buckets] for partition, buckets in context.partition_buckets
        ],
        "hashIndexes": [
            [base64_text(state.partition), state.bucket, state.path, index_json(state.file)]
            for state in context.hash_indexes
        ],
        "keyRead": None if context.key_read is None else _key_read_json(context.key_read),
        "keysKnownAt": context.keys_known_at,
        "partitions": None if context.partitions is None else predicate_json(context.partitions),
        "fileIO": file_io_json(context.file_io),
    }
    return header("write-context", members).to_bytes()


def load_write_context(data: bytes) -> WriteContext:
    """Inverse of `dump_write_context`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "write-context") as (members, _):
        partitions = members["partitions"]
        return WriteContext(
            table=members["table"],
            table_path=members["tablePath"],
            schema=schema_of(members["schema"]),
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
            hash_indexes=tuple(
                HashIndexState(
                    partition=base64.b64decode(partition),
                    bucket=bucket,
                    path=path,
                    file=index_of(file),
                )
                for partition, bucket, path, file in members["hashIndexes"]
            ),
            key_read=None if members["keyRead"] is None else _key_read_of(*members["keyRead"]),
            keys_known_at=members["keysKnownAt"],
            partitions=None if partitions is None else predicate_of(partitions),
            file_io=file_io_of(members["fileIO"]),
        )


def _key_read_json(keys: KeyRead) -> tuple[str, list[str]]:
    splits = [base64_text(dump_split(split)) for split in keys.splits]
    return base64_text(dump_read_context(keys.context)), splits


def _key_read_of(context: str, splits: Sequence[str]) -> KeyRead:
    return KeyRead(
        context=load_read_context(base64.b64decode(context)),
        splits=tuple(load_split(base64.b64decode(split)) for split in splits),
    )


def dump_error(error: PaimonError) -> bytes:
    """Encode an error as its class, message, kind and details."""
    members = {
        "class": type(error).__name__,
        "message": error.message,
        "kind": error.kind,
        "details": error.details,
    }
    return header("error", members).to_bytes()


def load_error(data: bytes) -> PaimonError:
    """Inverse of `dump_error`; an unknown class becomes a plain PaimonError.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "error") as (members, _):
        error_class = ERROR_CLASSES.get(members["class"], PaimonError)
        return error_class.of_parts(members["message"], members["kind"], members["details"])
