"""Which rows of a file may pass a predicate, by the file's index.

Every answer holds all rows that pass, and perhaps more; None is all rows, or unknown.
Source: `org.apache.paimon.fileindex.FileIndexPredicate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyroaring import BitMap

from paimon_assets.engine.codec.file_index import file_index_bitmap, file_index_bloom
from paimon_assets.engine.codec.file_index.file_index import (
    Indexes,
    damaged_index,
    decode_file_index,
)
from paimon_assets.engine.codec.file_index.file_index_bitmap import (
    BitmapIndex,
    is_indexed_by_bitmap,
)
from paimon_assets.engine.codec.file_index.file_index_bloom import is_indexed_by_bloom, may_hold
from paimon_assets.engine.codec.file_index.file_index_values import literal_as_long
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Leaf,
    Or,
    Predicate,
)
from paimon_assets.engine.spec.types.data_types import DataField, DataType

_INCLUDING = {CompareOp.LT: CompareOp.LE, CompareOp.GT: CompareOp.GE}
_NOTHING = BitMap()


def passing_rows(
    data: bytes, predicate: Predicate, fields: Mapping[str, DataField], path: str
) -> BitMap | None:
    """Return the rows of a file that may pass; None if the index rules nothing out."""
    indexes = decode_file_index(data, path)
    try:
        return _passing(predicate, indexes, fields)
    except FormatError as error:
        raise damaged_index(path, error.message) from error


def has_passing_rows(
    data: bytes, predicate: Predicate, fields: Mapping[str, DataField], path: str
) -> bool:
    """Whether some row of a file may pass; arguments and errors as `passing_rows`."""
    rows = passing_rows(data, predicate, fields, path)
    return rows is None or len(rows) > 0


def _passing(
    predicate: Predicate, indexes: Indexes, fields: Mapping[str, DataField]
) -> BitMap | None:
    match predicate:
        case And(children=children):
            known = [
                rows for child in children if (rows := _passing(child, indexes, fields)) is not None
            ]
            return reduce(BitMap.intersection, known) if known else None
        case Or(children=children):
            union = BitMap()
            for child in children:
                rows = _passing(child, indexes, fields)
                if rows is None:
                    return None
                union |= rows
            return union
        case _:
            return _by_column(predicate, indexes.get(predicate.field, {}), fields)


def _by_column(
    leaf: Leaf, by_type: Mapping[str, bytes], fields: Mapping[str, DataField]
) -> BitMap | None:
    column = fields.get(leaf.field)
    if column is None:
        return None
    known = []
    for index_type, data in by_type.items():
        rows = _by_index(leaf, index_type, data, column.type)
        if rows is not None:
            known.append(rows)
    return reduce(BitMap.intersection, known) if known else None


def _by_index(leaf: Leaf, index_type: str, data: bytes, data_type: DataType) -> BitMap | None:
    """Ask one index; those of types that are not known here say nothing."""
    match index_type:
        case file_index_bloom.INDEX_TYPE if is_indexed_by_bloom(data_type):
            return _by_bloom(leaf, data, data_type)
        case file_index_bitmap.INDEX_TYPE if is_indexed_by_bitmap(data_type):
            return _by_bitmap(leaf, BitmapIndex.of(data, data_type), data_type)
        case _:
            return None


def _by_bloom(leaf: Leaf, data: bytes, data_type: DataType) -> BitMap | None:
    literals = _wanted(leaf)
    if literals is None or any(may_hold(data, literal, data_type) for literal in literals):
        return None
    return _NOTHING


def _wanted(leaf: Leaf) -> tuple[Any, ...] | None:
    """Return the literals of which a row must equal one; None if there is no such rule."""
    match leaf:
        case Comparison(op=CompareOp.EQ, literal=literal):
            return () if literal is None else (literal,)
        case In(literals=literals, negated=False):
            return tuple(literal for literal in literals if literal is not None)
        case _:
            return None


def _unwanted(leaf: Leaf) -> tuple[Any, ...] | None:
    """Return the literals of which a row must equal none."""
    match leaf:
        case Comparison(op=CompareOp.NE, literal=literal):
            return (literal,)
        case In(literals=literals, negated=True):
            return literals
        case _:
            return None


def _by_bitmap(leaf: Leaf, index: BitmapIndex, data_type: DataType) -> BitMap | None:
    if isinstance(leaf, IsNull):
        return index.present if leaf.negated else index.nulls
    wanted = _wanted(leaf)
    if wanted is not None:
        return index.holding(wanted)
    unwanted = _unwanted(leaf)
    if unwanted is None or not all(_is_exact(literal, data_type) for literal in unwanted):
        return None
    held = index.holding(unwanted)
    return None if held is None else index.present - held


def _is_exact(literal: Any, data_type: DataType) -> bool:
    """Whether exactly the rows that equal a literal have its key."""
    if literal is None:
        return False
    if isinstance(literal, str):
        return True
    if isinstance(literal, float) and literal == 0:
        return False  # both zeros are looked up
    found = literal_as_long(literal, data_type)
    return found is not None and found[1]
