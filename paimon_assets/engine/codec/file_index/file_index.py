"""The file index of one data file: a head with the offset of each index, then the indexes.

    int64 magic · int32 version · int32 head length · int32 columns
      column: utf name · int32 indexes; index: utf type · int32 start · int32 length
    int32 redundant length, 0 · the indexes' bytes

All big-endian; `start` counts from the first byte of the file, -1 means an index without data.
An index is built in memory, and read whole. Its answer to a predicate holds all rows that pass, and
perhaps more; None is all rows, or unknown.
Source: `org.apache.paimon.fileindex.FileIndexFormat`, `FileIndexPredicate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeAlias

from pyroaring import BitMap

from paimon_assets.engine.codec.file_index import file_index_bitmap, file_index_bloom
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.all_options import FILE_INDEX_READ_ENABLED
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.types.data_types import DataField, DataType

MAGIC = 1_493_475_289_347_502
VERSION = 1
_NO_DATA = -1

Indexes: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""Column of the file → index type → its bytes."""


def encode_file_index(indexes: Indexes) -> bytes:
    head_bytes = len(_head(indexes, 0))
    bodies = [body for by_type in indexes.values() for body in by_type.values()]
    return _head(indexes, head_bytes) + b"".join(bodies)


def _head(indexes: Indexes, head_bytes: int) -> bytes:
    out = DataOutput()
    out.write_long(MAGIC)
    out.write_int(VERSION)
    out.write_int(head_bytes)
    out.write_int(len(indexes))
    start = head_bytes
    for column, by_type in indexes.items():
        out.write_utf(column)
        out.write_int(len(by_type))
        for index_type, body in by_type.items():
            out.write_utf(index_type)
            out.write_int(start)
            out.write_int(len(body))
            start += len(body)
    out.write_int(0)
    return out.to_bytes()


def decode_file_index(data: bytes) -> dict[str, dict[str, bytes]]:
    """Return the indexes of a file index by column and type; those without data are left out."""
    head = DataInput(data)
    magic, version = head.read_long(), head.read_int()
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"it begins with magic {magic} and version {version}")
    head.read_int()
    indexes: dict[str, dict[str, bytes]] = {}
    for _ in range(head.read_int()):
        by_type = indexes.setdefault(head.read_utf(), {})
        for _ in range(head.read_int()):
            index_type, start, length = head.read_utf(), head.read_int(), head.read_int()
            if start == _NO_DATA:
                continue
            if start < 0 or length < 0 or start + length > len(data):
                raise FormatError(f"its {index_type} index ends beyond its {len(data)} bytes")
            by_type[index_type] = data[start : start + length]
    return indexes


def damaged_index(path: str, fault: str) -> FormatError:
    message = (
        f"File index '{path}' is damaged: {fault}. Set '{FILE_INDEX_READ_ENABLED.key}' to false to"
        " read the table without it."
    )
    return FormatError(message, kind="file-index", path=path)


def passing_rows(
    data: bytes, predicate: pred.Predicate, fields: Mapping[str, DataField], path: str
) -> BitMap | None:
    """Return the rows of a file that may pass; None if the index rules nothing out."""
    try:
        return _passing(predicate, decode_file_index(data), fields)
    except FormatError as error:
        raise damaged_index(path, error.message) from error


def has_passing_rows(
    data: bytes, predicate: pred.Predicate, fields: Mapping[str, DataField], path: str
) -> bool:
    """Whether some row of a file may pass; arguments and errors as `passing_rows`."""
    rows = passing_rows(data, predicate, fields, path)
    return rows is None or len(rows) > 0


def _passing(
    predicate: pred.Predicate, indexes: Indexes, fields: Mapping[str, DataField]
) -> BitMap | None:
    match predicate:
        case pred.And(children=children):
            known = [
                rows for child in children if (rows := _passing(child, indexes, fields)) is not None
            ]
            return reduce(BitMap.intersection, known) if known else None
        case pred.Or(children=children):
            union = BitMap()
            for child in children:
                rows = _passing(child, indexes, fields)
                if rows is None:
                    return None
                union |= rows
            return union
        case _:
            column = fields.get(predicate.field)
            if column is None:
                return None
            answers = (
                _by_index(predicate, index_type, data, column.type)
                for index_type, data in indexes.get(predicate.field, {}).items()
            )
            known = [rows for rows in answers if rows is not None]
            return reduce(BitMap.intersection, known) if known else None


def _by_index(leaf: pred.Leaf, index_type: str, data: bytes, data_type: DataType) -> BitMap | None:
    """Ask one index; those of types that are not known here say nothing."""
    wanted = _wanted_values(leaf)
    match index_type:
        case file_index_bloom.INDEX_TYPE if file_index_bloom.is_indexed_by_bloom(data_type):
            if wanted is None or any(
                file_index_bloom.may_hold(data, literal, data_type) for literal in wanted
            ):
                return None
            return BitMap()
        case file_index_bitmap.INDEX_TYPE if file_index_bitmap.is_indexed_by_bitmap(data_type):
            index = file_index_bitmap.BitmapIndex.of(data, data_type)
        case _:
            return None
    if isinstance(leaf, pred.IsNull):
        return index.present if leaf.negated else index.nulls
    if wanted is not None:
        return index.holding(wanted)
    match leaf:
        case pred.Comparison(op=pred.CompareOp.NE, literal=literal):
            unwanted: tuple[Any, ...] = (literal,)
        case pred.In(literals=literals, negated=True):
            unwanted = literals
        case _:
            return None
    if not all(_is_exact(literal, data_type) for literal in unwanted):
        return None
    held = index.holding(unwanted)
    return None if held is None else index.present - held


def _wanted_values(leaf: pred.Leaf) -> tuple[Any, ...] | None:
    """Return the literals of which a row must equal one; None if there is no such rule."""
    match leaf:
        case pred.Comparison(op=pred.CompareOp.EQ, literal=literal):
            return () if literal is None else (literal,)
        case pred.In(literals=literals, negated=False):
            return tuple(literal for literal in literals if literal is not None)
        case _:
            return None


def _is_exact(literal: Any, data_type: DataType) -> bool:
    """Whether exactly the rows that equal a literal have its key."""
    if literal is None or (isinstance(literal, float) and literal == 0):
        return False  # both zeros are looked up
    if isinstance(literal, str):
        return True
    found = file_index_bloom.literal_as_long(literal, data_type)
    return found is not None and found[1]
