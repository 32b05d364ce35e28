"""listagg: the texts of a column, one behind the other.

Source: `org.apache.paimon.mergetree.compact.aggregate.FieldListaggAgg`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.key_order import Flags, Order
from paimon_assets.engine.data.merge.aggregate.lists import codes, first_of_each, nested_list
from paimon_assets.engine.data.merge.records import Array, Grouped, run_starts
from paimon_assets.engine.spec.merge.merge_rules import FieldAggregation

_WHITESPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009"
    "\u200a\u2028\u2029\u205f\u3000"
)
"""Java's blank characters."""


def join_texts(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Join the texts of each group that are not blank; a group of blanks gives null.

    With `distinct`, texts after the first are split at the delimiter, and repeated pieces left out.
    """
    present = grouped.valid(values)
    texts: Any = values.take(from_numpy(present.rows))
    filled = _fill(texts)
    present, texts = present.keep(filled), texts.filter(from_numpy(filled))
    groups = present.groups
    if settings.distinct:
        groups, texts = _distinct_pieces(groups, texts, settings.delimiter)
    lists = nested_list(groups, texts, grouped.count)
    joined: Any = pc.binary_join(lists, settings.delimiter)
    return joined  # type: ignore[no-any-return]  # an array, as `lists` is


def _fill(texts: Any) -> Flags:
    """Return which texts are more than blanks."""
    return to_numpy(pc.binary_length(pc.utf8_trim(texts, _WHITESPACE))) > 0


def _distinct_pieces(groups: Order, texts: Any, delimiter: str) -> tuple[Order, Any]:
    """Return the first text of each group whole, then pieces of the others that are new."""
    split = pc.split_pattern(texts, delimiter or " ")
    pieces, texts_of = pc.list_flatten(split), to_numpy(pc.list_parent_indices(split))
    piece_groups = groups[texts_of]
    is_first = np.zeros(len(texts), dtype=np.bool_)
    is_first[run_starts(groups)] = True
    new = first_of_each(piece_groups, codes(pieces))
    new &= ~is_first[texts_of]
    new &= _fill(pieces)
    all_groups = np.concatenate([groups[is_first], piece_groups[new]])
    order = np.argsort(all_groups, kind="stable")
    chunks = [texts.filter(from_numpy(is_first)), pieces.filter(from_numpy(new))]
    return all_groups[order], pa.concat_arrays(chunks).take(from_numpy(order))
