"""DataSplit in Java's binary form, versions 2 to 9; several stand one behind the other.

A DataSplit in the wrapper of Paimon 2 (SPLIT_V1) is read as well.

Source: `org.apache.paimon.table.source.DataSplit` (serialize, deserialize).
"""

from collections.abc import Sequence

from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta

FILE_ARITY = 20
"""Members of a file row of Java 1.3 to 2.0."""
SPLIT_MAGIC = -2_394_839_472_490_812_314
WRAPPED_SPLIT_MAGIC = 0x53504C49545F5631
_WRAPPED_DATA_SPLIT = (1, 1)
"""Version of the wrapper, and its type of plain DataSplits."""
SPLIT_VERSION = 8
_FILE_ARITY = {2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: FILE_ARITY, 9: FILE_ARITY + 1}
_LAST_VERSION = max(_FILE_ARITY)
_CARDINALITY_SINCE = 4
_TOTAL_BUCKETS_SINCE = 6
_UNKNOWN_CARDINALITY = -1


def dump_split(split: DataSplit, version: int = SPLIT_VERSION) -> bytes:
    """Encode a split as Java Paimon does: 2.1 in 9, 1.3 to 2.0 in 8, older releases in 2 to 7."""
    if version not in _FILE_ARITY:
        raise InvalidInputError(
            f"DataSplit version {version} is not written; versions 2 to {_LAST_VERSION} are.",
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
    """Decode a split of Java Paimon 0.9 to 2.1 (versions 2 to 9)."""
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
        wrapper = source.read_int(), source.read_int()
        if wrapper != _WRAPPED_DATA_SPLIT:
            raise UnsupportedFeatureError(
                f"A wrapped split (SPLIT_V1) of version and type {wrapper} is not read: it says"
                " more than its DataSplit, such as which row ids. Pass plain DataSplits.",
                kind="split-version",
            )
        magic = source.read_long()
    version = source.read_int() if magic == SPLIT_MAGIC else 1
    if version not in _FILE_ARITY:
        raise UnsupportedFeatureError(
            f"DataSplit version {version} is not read; versions 2 to {_LAST_VERSION} are.",
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


def write_optional_int(out: DataOutput, value: int | None) -> None:
    """Write whether there is a number, and the number."""
    out.write_boolean(value is not None)
    if value is not None:
        out.write_int(value)


def read_optional_int(source: DataInput) -> int | None:
    """Inverse of `write_optional_int`."""
    return source.read_int() if source.read_boolean() else None


def write_files(out: DataOutput, files: Sequence[DataFileMeta], arity: int = FILE_ARITY) -> None:
    """Write data files as Java file rows of the first `arity` members."""
    out.write_int(len(files))
    for file in files:
        out.write_bytes(file_to_row(file, arity))


def read_files(source: DataInput, arity: int) -> tuple[DataFileMeta, ...]:
    """Read data files whose rows have `arity` members."""
    count = source.read_int()
    return tuple(file_from_row(source.read_bytes(), arity) for _ in range(count))
