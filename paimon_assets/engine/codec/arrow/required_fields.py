"""Rows inside columns whose fields may not be null: pyarrow's Parquet writer refuses null rows.

It counts the nulls of a field without those of the row around it, and a merge leaves such ones.
"""

from typing import Any

import pyarrow as pa
import pyarrow.types as pat


def without_nulls_below(table: pa.Table) -> pa.Table:
    """Take the nulls from fields that may have none, where the row around them is null."""
    for number, field in enumerate(table.schema):
        if has_required_fields(field.type):
            chunks = [_settled(chunk, required=False) for chunk in table.column(number).chunks]
            table = table.set_column(number, field, pa.chunked_array(chunks, field.type))
    return table


def has_required_fields(arrow_type: Any) -> bool:
    """Whether a row inside a type has a field that may not be null."""
    if pat.is_map(arrow_type):
        return has_required_fields(arrow_type.key_type) or has_required_fields(arrow_type.item_type)
    if pat.is_list(arrow_type):
        return has_required_fields(arrow_type.value_type)
    if not pat.is_struct(arrow_type):
        return False
    return any(not field.nullable or has_required_fields(field.type) for field in arrow_type)


def _settled(array: Any, *, required: bool) -> Any:
    held = array.type
    mask = None if required else array.is_null()
    if pat.is_struct(held):
        fields = list(held)
        columns = [
            _settled(child, required=not field.nullable)
            for child, field in zip(array.flatten(), fields, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
    if array.offset and pat.is_nested(held):
        array = pa.concat_arrays([array])  # no slice: Arrow takes no mask beside sliced offsets
    if pat.is_map(held):
        items = _settled(array.items, required=not held.item_field.nullable)
        entries: Any = (array.offsets, array.keys, items)
        return pa.MapArray.from_arrays(*entries, type=held, mask=mask)
    if pat.is_list(held):
        inner = _settled(array.values, required=not held.value_field.nullable)
        return pa.ListArray.from_arrays(array.offsets, inner, type=held, mask=mask)
    if not required or not array.null_count:
        return array
    buffers = array.buffers()
    return pa.Array.from_buffers(held, len(array), [None, *buffers[1:]], offset=array.offset)
