"""The file index of a data file being written: what the table's options ask for, per column.

    rows of the file ─▶ one builder for each (column, type) ─▶ the file index

Indexes only spare work, so those that this engine does not build (range bitmaps, keys inside maps)
are left out.
Source: `org.apache.paimon.io.DataFileIndexWriter`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.file_index import (
    file_index_bitmap,
    file_index_bloom,
)
from paimon_assets.engine.codec.file_index.file_index import encode_file_index
from paimon_assets.engine.codec.file_index.file_index_bitmap import (
    BitmapBuilder,
    is_indexed_by_bitmap,
)
from paimon_assets.engine.codec.file_index.file_index_bloom import BloomBuilder, is_indexed_by_bloom
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.file_options import (
    BITMAP_BLOCK_SIZE,
    BITMAP_VERSION,
    BLOOM_FPP,
    BLOOM_ITEMS,
    FILE_INDEX_COLUMNS,
)
from paimon_assets.engine.spec.options.option import Option, Options
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, DataType

logger = logging.getLogger(__name__)


Builder = BloomBuilder | BitmapBuilder
"""An index of one column being built."""
NewBuilder = Callable[[], Builder]


@dataclass(frozen=True, slots=True)
class FileIndexPlan:
    """The plan of the indexes that a table's files get."""

    builders: Mapping[tuple[str, str], NewBuilder]
    """(column, index type) → what builds it."""

    @staticmethod
    def of(schema: TableSchema) -> "FileIndexPlan":
        """Read the options `file-index.<type>.columns`."""
        builders: dict[tuple[str, str], NewBuilder] = {}
        options = schema.typed_options
        for index_type, (is_indexed, new_builder) in _INDEX_TYPES.items():
            option = FILE_INDEX_COLUMNS.of(index_type)
            for name in options.get(option):
                if name.endswith("]"):
                    logger.warning("no file index of a map's key is written: %s", name)
                    continue
                field = schema.by_name.get(name)
                if field is None or not is_indexed(field.type):
                    raise _unindexable(option, name, field, schema.field_names)
                builders[name, index_type] = new_builder(field, options)
        return FileIndexPlan(builders)

    def start(self) -> "FileIndexWriter | None":
        """Begin the index of a file; None if files have none."""
        if not self.builders:
            return None
        return FileIndexWriter({key: new() for key, new in self.builders.items()})


def _unindexable(
    option: Option[Any], name: str, field: DataField | None, columns: Sequence[str]
) -> InvalidInputError:
    reason = (
        f"the table has no such column; it has {', '.join(columns)}"
        if field is None
        else f"columns of type {field.type} take no such index"
    )
    return InvalidInputError(
        f"Table option '{option.key}' names column '{name}': {reason}.",
        kind="option-value",
        details={"option": option.key, "column": name},
    )


def _bloom(field: DataField, options: Options) -> NewBuilder:
    items = options.get(BLOOM_ITEMS.of(field.name))
    fpp = options.get(BLOOM_FPP.of(field.name))
    return lambda: BloomBuilder(data_type=field.type, items=items, fpp=fpp)


def _bitmap(field: DataField, options: Options) -> NewBuilder:
    option = BITMAP_VERSION.of(field.name)
    version = options.get(option)
    if version not in (file_index_bitmap.FLAT_VERSION, file_index_bitmap.BLOCK_VERSION):
        raise InvalidInputError(
            f"Table option '{option.key}' has the value '{version}': expected 1 or 2.",
            kind="option-value",
            details={"option": option.key},
        )
    block_bytes = options.get(BITMAP_BLOCK_SIZE.of(field.name))
    return lambda: BitmapBuilder(data_type=field.type, version=version, block_bytes=block_bytes)


_INDEX_TYPES: Mapping[
    str, tuple[Callable[[DataType], bool], Callable[[DataField, Options], NewBuilder]]
] = {
    file_index_bloom.INDEX_TYPE: (is_indexed_by_bloom, _bloom),
    file_index_bitmap.INDEX_TYPE: (is_indexed_by_bitmap, _bitmap),
}


@dataclass(frozen=True, slots=True)
class FileIndexWriter:
    """Collects what the index of one file needs."""

    builders: Mapping[tuple[str, str], Builder]

    def add(self, rows: pa.Table) -> None:
        """Take in further rows of the file."""
        for (name, _), builder in self.builders.items():
            for chunk in rows.column(name).chunks:
                builder.add(chunk)

    def finish(self) -> bytes:
        """Return the file index."""
        indexes: dict[str, dict[str, bytes]] = {}
        for (name, index_type), builder in self.builders.items():
            body = builder.finish()
            if body is not None:
                indexes.setdefault(name, {})[index_type] = body
        return encode_file_index(indexes)
