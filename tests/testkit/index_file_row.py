"""IndexFileMeta ⇄ BinaryRow: the index rows of Java's commit messages.

    columns   grew by     what each deletion vector has, what a global index has
    5         0.9         name, offset, length; from 1.0 its cardinality
    6         1.3         external path
    7         1.4         global index: 5 columns; from 2.0 its source, 6 columns

Source: `org.apache.paimon.index.IndexFileMetaSerializer` and its predecessors.
"""

from dataclasses import dataclass
from typing import Any

from paimon_assets.engine.codec.rows.binary_row import row_bytes, row_values
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.index_file import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
)
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


def index_to_row(index: IndexFileMeta, layout: IndexRowLayout) -> bytes:
    """Encode an index file as a row without arity; what the layout has no place for is left out."""
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


def index_from_row(data: bytes, layout: IndexRowLayout) -> IndexFileMeta:
    """Decode an index file from a row without arity prefix."""
    try:
        values = row_values(data, layout.types)
        (index_type, name, size, rows, vectors, external_path, covers) = values + (None,) * (
            7 - layout.arity
        )
        return IndexFileMeta(
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


def _vector(values: tuple[Any, ...]) -> DeletionVectorMeta:
    name, offset, length = values[:3]
    cardinality = values[3] if len(values) > 3 else None
    return DeletionVectorMeta(
        data_file_name=name, offset=offset, length=length, cardinality=cardinality
    )


def _covers(values: tuple[Any, ...]) -> GlobalIndexMeta:
    start, end, field_id, extra, index_meta = values[:5]
    return GlobalIndexMeta(
        row_range_start=start,
        row_range_end=end,
        index_field_id=field_id,
        extra_field_ids=extra,
        index_meta=index_meta,
        source_meta=values[5] if len(values) > 5 else None,
    )
