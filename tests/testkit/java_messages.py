"""CommitMessages as Java writes them: for jobs that write with one engine and commit with another.

Their version is not in the bytes: whoever passes them on must say it.

    version   Paimon     data file row   index row
    3         0.9        16              5 columns, vectors of 3
    4, 5      1.0        17              5 columns; from version 5 vectors of 4
    6, 7      1.0 – 1.2  18              5; from version 7 with the number of buckets
    8         1.3        19              5
    9, 10     1.3        20              6; from version 10 index files beside their data files
    11        1.4        20              7
    12        2.0        20              7, global indexes of 6
    13        2.1        21              7
    14        2.1, pypaimon 2.1: as 13, then the snapshot that a check of conflicts begins at

Source: `org.apache.paimon.table.sink.CommitMessageSerializer`,
`org.apache.paimon.index.IndexFileMetaSerializer` and its predecessors.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paimon_assets.engine.codec.rows.binary_row import row_bytes, row_values
from paimon_assets.engine.codec.rows.data_file_row import file_from_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.contract.wire import read_optional_int, write_files, write_optional_int
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata import manifest
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.paths import plain_name, straight_path
from paimon_assets.engine.spec.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    bigint,
    integer,
    string,
)

_BYTES = AtomicType(root=TypeRoot.VARBINARY, length=MAX_LENGTH)
_VECTOR = (string(), integer(), integer(), bigint())
_GLOBAL = (bigint(), bigint(), integer(), ArrayType(element=integer()), _BYTES, _BYTES)


def _row_type(types: tuple[DataType, ...]) -> RowType:
    fields = (
        DataField(id=number, name=str(number), type=each) for number, each in enumerate(types)
    )
    return RowType(fields=tuple(fields))


@dataclass(frozen=True, slots=True)
class IndexRowLayout:
    """The number of columns in the rows of one release."""

    arity: int = 7
    vector_arity: int = len(_VECTOR)
    global_arity: int = len(_GLOBAL)

    @property
    def types(self) -> tuple[DataType, ...]:
        vectors = ArrayType(element=_row_type(_VECTOR[: self.vector_arity]))
        covers = _row_type(_GLOBAL[: self.global_arity])
        every = (string(), string(), bigint(), bigint(), vectors, string(), covers)
        return every[: self.arity]


def index_to_row(index: manifest.IndexFileMeta, layout: IndexRowLayout) -> bytes:
    """Encode an index file as a row without arity; members that the layout lacks are left out."""
    vectors, covers = index.deletion_vectors, index.global_index
    values = (
        index.index_type,
        index.file_name,
        index.file_size,
        index.row_count,
        None
        if vectors is None
        else tuple(
            (each.data_file_name, each.offset, each.length, each.cardinality)[: layout.vector_arity]
            for each in vectors
        ),
        index.external_path,
        None
        if covers is None
        else (
            covers.row_range_start,
            covers.row_range_end,
            covers.index_field_id,
            covers.extra_field_ids,
            covers.index_meta,
            covers.source_meta,
        )[: layout.global_arity],
    )
    return row_bytes(values[: layout.arity], layout.types)


def index_from_row(data: bytes, layout: IndexRowLayout) -> manifest.IndexFileMeta:
    """Decode an index file from a row without arity prefix."""
    try:
        values = row_values(data, layout.types)
        (index_type, name, size, rows, vectors, external_path, covers) = values + (None,) * (
            7 - layout.arity
        )
        return manifest.IndexFileMeta(
            index_type=index_type,
            file_name=plain_name(name),
            file_size=size,
            row_count=rows,
            deletion_vectors=None if vectors is None else tuple(map(_vector, vectors)),
            external_path=None if external_path is None else straight_path(external_path),
            global_index=None if covers is None else _covers(covers),
        )
    except (TypeError, ValueError) as error:
        raise FormatError(f"An index row is damaged: {error!r}.", kind="index-row") from error


def _vector(values: tuple[Any, ...]) -> manifest.DeletionVectorMeta:
    name, offset, length = values[:3]
    cardinality = values[3] if len(values) > 3 else None
    return manifest.DeletionVectorMeta(
        data_file_name=name, offset=offset, length=length, cardinality=cardinality
    )


def _covers(values: tuple[Any, ...]) -> manifest.GlobalIndexMeta:
    start, end, field_id, extra, index_meta = values[:5]
    return manifest.GlobalIndexMeta(
        row_range_start=start,
        row_range_end=end,
        index_field_id=field_id,
        extra_field_ids=extra,
        index_meta=index_meta,
        source_meta=values[5] if len(values) > 5 else None,
    )


JAVA_MESSAGE_VERSION = 12
"""The version written: that of Paimon 2.0, which later releases read."""
_NAME_SLOT = struct.Struct("<8xQ")
_BUCKET_COUNT_SINCE = 7
_INDEXES_IN_PLACE_SINCE = 10
_CHECK_SINCE = 14


@dataclass(frozen=True, slots=True)
class _Layout:
    file_arity: int
    indexes: IndexRowLayout = field(default_factory=IndexRowLayout)


_LAYOUTS: Mapping[int, _Layout] = {
    3: _Layout(16, IndexRowLayout(5, 3)),
    4: _Layout(17, IndexRowLayout(5, 3)),
    5: _Layout(17, IndexRowLayout(5)),
    6: _Layout(18, IndexRowLayout(5)),
    7: _Layout(18, IndexRowLayout(5)),
    8: _Layout(19, IndexRowLayout(5)),
    9: _Layout(20, IndexRowLayout(6)),
    10: _Layout(20, IndexRowLayout(6)),
    11: _Layout(20, IndexRowLayout(global_arity=5)),
    12: _Layout(20),
    13: _Layout(21),
    14: _Layout(21),
}


def dump_java_messages(
    messages: Sequence[CommitMessage], version: int = JAVA_MESSAGE_VERSION
) -> bytes:
    """Encode a list of messages in version 12 or a later one."""
    out = DataOutput()
    out.write_int(len(messages))
    layout, arity = _LAYOUTS[version].indexes, _LAYOUTS[version].file_arity
    for message in messages:
        data, compact = message.data_increment, message.compact_increment
        out.write_bytes(message.partition)
        out.write_int(message.bucket)
        write_optional_int(out, message.total_buckets)
        for files in (data.new_files, data.deleted_files, data.changelog_files):
            write_files(out, files, arity)
        _write_indexes(out, data.new_index_files, layout)
        _write_indexes(out, data.deleted_index_files, layout)
        for files in (compact.compact_before, compact.compact_after, compact.changelog_files):
            write_files(out, files, arity)
        _write_indexes(out, compact.new_index_files, layout)
        _write_indexes(out, compact.deleted_index_files, layout)
        if version >= _CHECK_SINCE:
            out.write_boolean(False)
    return out.to_bytes()


def _write_indexes(
    out: DataOutput, indexes: Sequence[manifest.IndexFileMeta], layout: IndexRowLayout
) -> None:
    out.write_int(len(indexes))
    for index in indexes:
        out.write_bytes(index_to_row(index, layout))


def load_java_messages(data: bytes, version: int) -> tuple[CommitMessage, ...]:
    """Decode a list of messages."""
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise UnsupportedFeatureError(
            f"Commit messages of version {version} are not read; versions {min(_LAYOUTS)} to"
            f" {max(_LAYOUTS)} (Paimon 0.9 to 2.1) are.",
            kind="commit-message-version",
            version=version,
        )
    source = DataInput(data)
    messages = tuple(_read(source, version, layout) for _ in range(source.read_int()))
    if not source.at_end():
        raise FormatError(
            f"Bytes are left behind {len(messages)} commit messages of version {version}; they are"
            " of another version.",
            kind="commit-message",
            version=version,
        )
    return messages


def _read(source: DataInput, version: int, layout: _Layout) -> CommitMessage:
    partition, bucket = source.read_bytes(), source.read_int()
    buckets = read_optional_int(source) if version >= _BUCKET_COUNT_SINCE else None
    read = _read_since_10 if version >= _INDEXES_IN_PLACE_SINCE else _read_before_10
    data, compact = read(source, layout)
    if version >= _CHECK_SINCE and source.read_boolean():
        raise UnsupportedFeatureError(
            f"A commit message asks for a check from snapshot {source.read_long()} on, which this "
            "engine does not make.",
            kind="commit-message-check",
        )
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=buckets,
        data_increment=data,
        compact_increment=compact,
    )


def _read_since_10(source: DataInput, layout: _Layout) -> tuple[DataIncrement, CompactIncrement]:
    new, deleted, changelog = (_read_files(source, layout.file_arity) for _ in range(3))
    new_indexes, deleted_indexes = (_read_indexes(source, layout.indexes) for _ in range(2))
    data = DataIncrement(
        new_files=new,
        deleted_files=deleted,
        changelog_files=changelog,
        new_index_files=new_indexes,
        deleted_index_files=deleted_indexes,
    )
    before, after, changelog = (_read_files(source, layout.file_arity) for _ in range(3))
    new_indexes, deleted_indexes = (_read_indexes(source, layout.indexes) for _ in range(2))
    compact = CompactIncrement(
        compact_before=before,
        compact_after=after,
        changelog_files=changelog,
        new_index_files=new_indexes,
        deleted_index_files=deleted_indexes,
    )
    return data, compact


def _read_before_10(source: DataInput, layout: _Layout) -> tuple[DataIncrement, CompactIncrement]:
    """Read messages whose index files belong to the compaction, if there is one."""
    new, deleted, changelog = (_read_files(source, layout.file_arity) for _ in range(3))
    before, after, compacted = (_read_files(source, layout.file_arity) for _ in range(3))
    new_indexes, deleted_indexes = (_read_indexes(source, layout.indexes) for _ in range(2))
    compacts = bool(before or after or compacted)
    data = DataIncrement(
        new_files=new,
        deleted_files=deleted,
        changelog_files=changelog,
        new_index_files=() if compacts else new_indexes,
        deleted_index_files=() if compacts else deleted_indexes,
    )
    compact = CompactIncrement(
        compact_before=before,
        compact_after=after,
        changelog_files=compacted,
        new_index_files=new_indexes if compacts else (),
        deleted_index_files=deleted_indexes if compacts else (),
    )
    return data, compact


def _read_files(source: DataInput, arity: int) -> tuple[DataFileMeta, ...]:
    rows = [source.read_bytes() for _ in range(source.read_int())]
    for row in rows:
        # The name is longer than a slot, so it is right behind the slots.
        (place,) = _NAME_SLOT.unpack_from(row.ljust(_NAME_SLOT.size, b"\0"))
        if place >> 32 != 8 + 8 * arity:
            raise FormatError(
                f"A file row does not have {arity} columns; the messages are of another version.",
                kind="commit-message",
            )
    return tuple(file_from_row(row, arity) for row in rows)


def _read_indexes(source: DataInput, layout: IndexRowLayout) -> tuple[manifest.IndexFileMeta, ...]:
    count = source.read_int()
    return tuple(index_from_row(source.read_bytes(), layout) for _ in range(count))
