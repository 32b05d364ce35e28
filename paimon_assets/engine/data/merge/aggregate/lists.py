"""Lists of many records ⇄ elements, for functions on elements; the functions `collect`, `listagg`.

    lists of many records ─▶ elements, each with its group and record ─▶ some of these ─▶ lists

Elements are compared through numbers: equal elements of any type, nested ones too, get equal codes.
Source: `org.apache.paimon.mergetree.compact.aggregate.FieldCollectAgg`, `FieldListaggAgg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.key_order import Order, sort_keys
from paimon_assets.engine.data.merge.aggregate.picks import later_than_retracts
from paimon_assets.engine.data.merge.records import Grouped, run_ends, run_starts
from paimon_assets.engine.spec.merge.merge_rules import FieldAggregation


class Elements(Struct, frozen=True):
    """The elements of a column's lists (or the entries of its maps), record by record."""

    lists: arrays.Array
    records: Grouped
    grouped: Grouped
    """One item an element; `rows` are positions in `content`."""
    record_of: Order
    """Element → position of its record in `records`."""

    @staticmethod
    def of(values: arrays.Array, grouped: Grouped) -> Elements:
        """Return the elements of a column's lists; null lists have none."""
        present = grouped.valid(values)
        lists: Any = values.take(arrays.from_numpy(present.rows))
        # Elements have the order of their records, so groups ascend; an element's arrival grows
        # with its record's, then with its place in the list.
        ends: npt.NDArray[np.int64] = arrays.to_numpy(lists.offsets).astype(np.int64)
        record_of = np.repeat(np.arange(len(lists)), np.diff(ends))
        arrivals = present.arrival_ranks()[record_of] * len(record_of) + np.arange(len(record_of))
        elements = Grouped(
            count=present.count,
            groups=present.groups[record_of],
            rows=np.arange(ends[0], ends[-1]) if len(lists) else np.empty(0, dtype=np.int64),
            retracts=None if present.retracts is None else present.retracts[record_of],
            arrivals=arrivals,
        )
        return Elements(lists, present, elements, record_of)

    @property
    def content(self) -> arrays.Array:
        """All elements (of maps, the keys)."""
        lists: Any = self.lists
        content: arrays.Array = lists.keys if pat.is_map(lists.type) else lists.values
        return content

    @property
    def has_list(self) -> arrays.Flags:
        """Groups with a list: some record adds one that is not null."""
        return arrays.flags_at(self.records.without_retracts().groups, self.records.count)

    def rebuild(self, elements: Grouped, content: arrays.Array | None = None) -> arrays.Array:
        """Put elements into one list (or map) for each group."""
        lists: Any = self.lists
        indices = arrays.from_numpy(elements.rows)
        options: Any = {"type": lists.type, "mask": arrays.from_numpy(~self.has_list)}
        parts: Any = [_offsets(elements.groups, elements.count)]
        result: arrays.Array
        if pat.is_map(lists.type):
            parts += [lists.keys.take(indices), lists.items.take(indices)]
            result = pa.MapArray.from_arrays(*parts, **options)
        else:
            parts.append((lists.values if content is None else content).take(indices))
            result = pa.ListArray.from_arrays(*parts, **options)
        return result


def _offsets(groups: Order, count: int) -> arrays.Array:
    ends = np.searchsorted(groups, np.arange(count + 1))
    return arrays.from_numpy(ends.astype(np.int32))


def nested_list(groups: Order, items: arrays.Array, count: int) -> arrays.Array:
    """Return a list of items for each group, null for groups without any."""
    mask = arrays.from_numpy(~arrays.flags_at(groups, count))
    parts: Any = [_offsets(groups, count), items]
    lists: arrays.Array = pa.ListArray.from_arrays(*parts, mask=mask)
    return lists


def codes(values: arrays.Array) -> Order:
    """Return numbers that are equal where values are equal; nulls equal each other.

    Maps are equal if their entries are, in order.
    """
    by_code = sort_keys(_comparable(values))
    result = np.empty(len(values), dtype=np.int64)
    result[by_code.order] = np.cumsum(by_code.starts) - 1
    return result


def joint_codes(columns: list[arrays.Array]) -> Order:
    """Return numbers that are equal where the values of all columns are."""
    return codes_of_numbers([codes(column) for column in columns])


def codes_of_numbers(numbers: list[Order]) -> Order:
    """Return numbers that are equal where all of `numbers` are, counting from first appearance."""
    by_code = sort_keys([arrays.from_numpy(each) for each in numbers])
    firsts = by_code.order[by_code.starts]
    ranks = np.empty(len(firsts), dtype=np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    result = np.empty(len(by_code.order), dtype=np.int64)
    result[by_code.order] = ranks[np.cumsum(by_code.starts) - 1]
    return result


def _comparable(values: Any) -> list[arrays.Array]:
    """Cut a column of any type into columns that have an order."""
    valid = arrays.from_numpy(arrays.valid_rows(values).astype(np.uint8))
    if pat.is_struct(values.type):
        return [valid, *(arrays.from_numpy(codes(child)) for child in values.flatten())]
    if pat.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    if pat.is_list(values.type) or pat.is_map(values.type):
        is_map = pat.is_map(values.type)
        parts = [values.keys, values.items] if is_map else [values.values]
        # The codes of a list's elements, eight bytes each, compare as the list does.
        inner = joint_codes(parts) if len(parts[0]) else np.empty(0, dtype=np.int64)
        ends = arrays.to_numpy(values.offsets).astype(np.int64) * inner.itemsize
        lengths = np.where(arrays.valid_rows(values), np.diff(ends), 0)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        buffers = [None, arrays.buffer_of(offsets), _pack(inner, ends, lengths)]
        return [valid, pa.Array.from_buffers(pa.large_binary(), len(values), buffers)]
    return [values]


def _pack(inner: Order, ends: Order, lengths: Order) -> pa.Buffer:
    """Return the bytes of each list's codes, without those under nulls."""
    count = lengths // inner.itemsize
    starts = np.repeat(ends[:-1] // inner.itemsize - (np.cumsum(count) - count), count)
    return arrays.buffer_of(inner[starts + np.arange(int(count.sum()))])


def first_of_each(groups: Order, items: Order) -> arrays.Flags:
    """Return which items are the first of their group and number."""
    ids = codes_of_numbers([groups, items])
    first = np.ones(len(ids), dtype=np.bool_)
    first[1:] = ids[1:] > np.maximum.accumulate(ids)[:-1]
    return first


def collect_elements(
    values: arrays.Array, grouped: Grouped, settings: FieldAggregation
) -> arrays.Array:
    """Concatenate the lists of each group, in order of arrival.

    A retracted element removes the oldest one that equals it; with `distinct` there is only one.
    """
    elements = Elements.of(values, grouped.by_arrival())
    inner = elements.grouped
    if inner.retracts is None and not settings.distinct:
        return elements.rebuild(inner)
    same = codes_of_numbers([inner.groups, codes(elements.content)[inner.rows]])
    if inner.retracts is not None and not settings.distinct:
        return elements.rebuild(inner.keep(_remains(same, inner.retracts)))
    is_later = later_than_retracts(same, inner)
    inner, same = inner.keep(is_later), same[is_later]
    return elements.rebuild(inner.keep(first_of_each(inner.groups, same)))


def last_of_each(elements: Grouped, same: Order, *ranks: npt.NDArray[Any]) -> Grouped:
    """Return the highest of equal elements, the last of several, at the first one's position."""
    same = codes_of_numbers([same])
    order = np.lexsort((*ranks, same))
    winners = order[run_ends(same[order])]
    return Grouped(
        count=elements.count, groups=elements.groups[winners], rows=elements.rows[winners]
    )


def _remains(same: Order, retracts: arrays.Flags) -> arrays.Flags:
    """Return which elements remain if each that retracts removes the oldest equal one."""
    # Equal elements are stretches of `order`; `sums` counts those of a stretch up to each place,
    # with a step down for each that retracts. The last `left` of the added ones remain.
    order = np.argsort(same, kind="stable")
    steps = np.where(retracts[order], -1, 1)
    starts = np.flatnonzero(np.diff(same[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    sums = np.cumsum(steps)
    sums -= np.repeat(sums[starts] - steps[starts], lengths)
    # A retraction without an equal element has no effect: negative sums count as zero.
    left = sums[starts + lengths - 1] - np.minimum(np.minimum.reduceat(sums, starts), 0)
    added = np.cumsum(steps > 0)
    totals = added[starts + lengths - 1]
    result = np.empty(len(order), dtype=np.bool_)
    result[order] = (steps > 0) & (np.repeat(totals - left, lengths) < added)
    return result


_WHITESPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009"
    "\u200a\u2028\u2029\u205f\u3000"
)


def join_texts(values: arrays.Array, grouped: Grouped, settings: FieldAggregation) -> arrays.Array:
    """Join the texts of each group that are not blank; a group of blanks gives null.

    With `distinct`, texts after the first are split at the delimiter, and repeated pieces left out.
    """
    present = grouped.valid(values)
    texts: Any = values.take(arrays.from_numpy(present.rows))
    filled = _fill(texts)
    present, texts = present.keep(filled), texts.filter(arrays.from_numpy(filled))
    groups = present.groups
    if settings.distinct:
        groups, texts = _distinct_pieces(groups, texts, settings.delimiter)
    lists = nested_list(groups, texts, grouped.count)
    joined: Any = pc.binary_join(lists, settings.delimiter)
    return joined  # type: ignore[no-any-return]  # an array, as `lists` is


def _fill(texts: Any) -> arrays.Flags:
    """Return which texts are more than blanks."""
    return arrays.to_numpy(pc.binary_length(pc.utf8_trim(texts, _WHITESPACE))) > 0


def _distinct_pieces(groups: Order, texts: arrays.Array, delimiter: str) -> tuple[Order, Any]:
    """Return the first text of each group whole, then pieces of later texts that are new."""
    # Pieces of a first text are not listed themselves; a piece equal to one of them is not new.
    split = pc.split_pattern(texts, delimiter or " ")
    pieces, texts_of = pc.list_flatten(split), arrays.to_numpy(pc.list_parent_indices(split))
    piece_groups = groups[texts_of]
    is_first = arrays.flags_at(run_starts(groups), len(texts))
    new = first_of_each(piece_groups, codes(pieces))
    new &= ~is_first[texts_of]
    new &= _fill(pieces)
    all_groups = np.concatenate([groups[is_first], piece_groups[new]])
    order = np.argsort(all_groups, kind="stable")
    chunks = [texts.filter(arrays.from_numpy(is_first)), pieces.filter(arrays.from_numpy(new))]
    return all_groups[order], pa.concat_arrays(chunks).take(arrays.from_numpy(order))
