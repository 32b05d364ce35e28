"""Arrays, maps and rows → the JSON of their values, as texts for STRING columns.

Numbers are as they are, bytes base64, dates and times ISO 8601, NaN and infinities in quotes.
"""

import base64
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy

_ESCAPED = {chr(code): json.dumps(chr(code))[1:-1] for code in (92, 34, *range(32))}
"""The backslash first: it is part of all other escapes."""


def json_texts(column: Any) -> Any:
    """Return the JSON of each value; null for null."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [f"{json.dumps(kind.field(place).name)}:" for place in range(kind.num_fields)]
        parts = [*map(_together, names, map(_inside, column.flatten()))]
        inside = pc.binary_join_element_wise(*parts, ",") if parts else ""
        return pc.if_else(column.is_valid(), _together("{", inside, "}"), None)
    if not pa.types.is_nested(kind):
        return _leaves(column)
    starts = to_numpy(column.offsets)
    first, count = int(starts[0]), int(starts[-1] - starts[0])
    if pa.types.is_map(kind):
        keys, values = (_inside(each.slice(first, count)) for each in (column.keys, column.items))
        quoted = pc.if_else(pc.starts_with(keys, '"'), keys, _together('"', keys, '"'))
        items, brackets = _together(quoted, ":", values), "{}"
    else:
        items, brackets = _inside(column.values.slice(first, count)), "[]"
    lists: Any = pa.ListArray
    inside = pc.binary_join(lists.from_arrays(from_numpy(starts - first), items), ",")
    return pc.if_else(column.is_valid(), _together(brackets[0], inside, brackets[1]), None)


def _leaves(column: Any) -> Any:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = column.to_pylist()  # nothing of Arrow's encodes them
        coded = [None if each is None else base64.b64encode(each).decode() for each in values]
        return _together('"', pa.array(coded, pa.string()), '"')
    texts = column.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return texts
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), texts, _together('"', texts, '"'))
    for letter, escaped in _ESCAPED.items():
        texts = pc.replace_substring(texts, letter, escaped)
    return _together('"', texts, '"')


def _inside(column: Any) -> Any:
    return json_texts(column).fill_null("null")


def _together(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")
