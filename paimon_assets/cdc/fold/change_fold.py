"""The changes of each key folded into one row, column by column.

    images of a key, in the order of the log        x      y
        +I  position 10                             1      a
        +U  position 20, y did not arrive           2      –
        -D  position 30  ─▶ nothing of before is left
        +I  position 40                             4      d
        +U  position 50, x did not arrive           –      e
                                                   ─────────
        the last image, filled from those before    4      e

A row whose key changed is deleted and inserted at one position; the values that did not arrive with
the insert are those of the row that was deleted. Databases that check keys at the end of a
transaction let it put a row at a key that another row leaves later:

    a key of which a row is stored                  +I  position 60     the row that is put there
                                                    -D  position 70     of the stored row

Rows that the table holds are images too, at the position they were written with: `settle` looks up
those it needs. Everything here is pure and works on whole columns.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy, to_numpy
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64
from paimon_assets.engine.data.key_order import order_within_groups, sort_keys
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value

_REMEMBERED = 256
"""The deletes that a ledger names."""
_COMMIT = "^(?P<commit>[^:]*:[^:]*)"
"""The number of the log and the transaction's commit, in a position that begins with them."""
Places: TypeAlias = npt.NDArray[np.int64]
LookUp: TypeAlias = Callable[[pa.Table, Sequence[str]], pa.Table]
"""Takes rows of keys and names of columns; returns the table's rows of these keys: keys, position
and columns."""


class Images(Value):
    """Row images; of equal keys and positions the later one counts."""

    rows: pa.Table
    kinds: Kinds
    """+I, +U or -D."""
    missing: Mapping[str, Flags]
    """Column → images whose value did not arrive; columns without an entry arrived whole."""
    stored: Flags
    """Images that are rows of the table; one of a key at most."""
    in_commits: Flags
    """Images whose position begins with that of the commit of their transaction."""
    precedes: Any = None
    """Texts: the position of the image of its key that an image counts before, although its own
    position is higher; null for the rest."""

    def after(self, position: str, text: str) -> "Images":
        """Return the images above a position, by the column that holds it."""
        return self.take(to_numpy(pc.greater(_plain(self.rows, position), pa.scalar(text))))

    def take(self, flags: Flags) -> "Images":
        return Images(
            rows=self.rows.filter(from_numpy(flags)),
            kinds=self.kinds[flags],
            missing={name: each[flags] for name, each in self.missing.items()},
            stored=self.stored[flags],
            in_commits=self.in_commits[flags],
            precedes=None if self.precedes is None else self.precedes.filter(from_numpy(flags)),
        )


class Folded(Value):
    """One row of each key."""

    rows: pa.Table
    """A value that did not arrive is null."""
    kinds: Kinds
    missing: Mapping[str, Flags]
    """Column → rows without a value; the stored row has it, if there is one."""
    lost: Mapping[str, Flags]
    """Column → rows without a value, though the key was deleted before: no stored row has it."""
    is_filled: Flags
    """Rows with a value, or without one, that did not arrive with their last image."""
    is_stored: Flags
    """Rows whose last image is the table's row: nothing is to be written."""
    has_stored: Flags
    """Rows of keys of which the table's row is among the images."""
    first_positions: Any
    """Of each row, the position of the key's first image; texts."""
    contradicts: Flags
    """Rows of keys that the table's row may be wrong for: an image older than it has a value that
    differs from it, and from the position `filled_to` on values may have been filled in."""


def fold(images: Images, keys: Sequence[str], position: str, *, filled_to: str = "") -> Folded:
    """Fold the images of each key.

    Args:
        images: At least one.
        keys: Columns of the key.
        position: A column of texts; images are ordered by it. Null is before all.
        filled_to: Stored rows up to this position may have values that did not arrive with them.
    """
    rows = images.rows.combine_chunks()
    positions = _plain(rows, position).fill_null("")
    order, starts = _by_key(images, keys, position)
    # Image order[p] is at place p: by key, within a key by position. A key has the places from its
    # first to its last one; arrays of keys hold places. A row that is not deleted takes no value
    # from below its `floor`.
    count, places = len(order), np.arange(len(order))
    firsts = np.flatnonzero(starts)
    lasts = np.append(firsts[1:], count) - 1
    kinds, stored = images.kinds[order], images.stored[order]
    deletes = np.maximum.accumulate(np.where(kinds == RowKind.DELETE, places, -1))
    floor = np.maximum(firsts, deletes[lasts] + 1)  # nothing of before a delete is left
    is_delete = kinds[lasts] == RowKind.DELETE
    own = np.maximum.accumulate(np.where(stored, places, -1))[lasts]
    has_stored = own >= firsts
    before_own = np.where(has_stored, own - 1, -1)  # the last image that is older than the row
    is_late = (before_own >= firsts) & (kinds[before_own] != RowKind.DELETE)
    is_late &= to_numpy(
        pc.less(positions.take(from_numpy(order[before_own])), pa.scalar(filled_to))
    )
    contradicts, is_filled = np.zeros((2, len(lasts)), dtype=bool)
    missing: dict[str, Flags] = {}
    lost: dict[str, Flags] = {}
    columns = []
    for name in rows.column_names:
        values = _plain(rows, name)
        gaps = images.missing.get(name)
        if gaps is None:
            latest = places
            sources, is_missing = lasts, np.zeros(len(lasts), dtype=bool)
        else:
            latest = np.maximum.accumulate(np.where(gaps[order], -1, places))
            sources = np.where(is_delete, lasts, latest[lasts])
            is_missing = sources < floor
            is_missing &= ~is_delete
            is_filled |= (sources < lasts) & ~is_delete
            was_deleted = floor > firsts
            if (is_missing & ~was_deleted).any():
                missing[name] = is_missing & ~was_deleted
            if (is_missing & was_deleted).any():
                lost[name] = is_missing & was_deleted
        columns.append(_take_values(values, order, sources, is_missing))
        if is_late.any() and name != position and name not in keys:
            late = latest[before_own]
            known = is_late & (late >= np.maximum(firsts, deletes[before_own] + 1))
            known &= (sources == own) & ~is_delete  # else a newer image has the value
            contradicts[known] |= _differ(values, order[late[known]], order[own[known]])
    return Folded(
        rows=pa.Table.from_arrays(columns, schema=rows.schema),
        kinds=kinds[lasts],
        missing=missing,
        lost=lost,
        is_filled=is_filled,
        is_stored=stored[lasts],
        has_stored=has_stored,
        first_positions=positions.take(from_numpy(order[firsts])),
        contradicts=contradicts,
    )


def _by_key(images: Images, keys: Sequence[str], position: str) -> tuple[Places, Flags]:
    """Return the order of images by key and position, and where the keys begin in it."""
    by_key = sort_keys([_plain(images.rows, name) for name in keys])
    columns: list[Any] = [_plain(images.rows, position).fill_null("")]
    if (first := images.precedes) is not None:
        columns = [pc.coalesce(first, columns[0]), to_numpy(first.is_null()).astype(np.int64)]
    return order_within_groups(by_key, columns).astype(np.int64), by_key.starts


def split(images: Images, keys: Sequence[str], position: str, marks: str) -> tuple[Images, Images]:
    """Return the images of keys all of whose values arrived, and the remaining images.

    The former are settled without a look-up. The latter include keys whose row moved to such a key.
    """
    count = len(images.kinds)
    gaps = _any(images.missing, count) & (images.kinds != RowKind.DELETE)
    if not gaps.any():
        return images, images.take(gaps)
    inserts, deletes = _moves(images, position, marks)
    is_open = gaps.copy()
    is_open[deletes[gaps[inserts]]] = True
    order, starts = _by_key(images, keys, position)
    # Of a key all images are open or none, as its values are looked up together.
    numbers = np.cumsum(starts) - 1
    of_keys = np.zeros(numbers[-1] + 1, dtype=np.bool_)
    of_keys[numbers[is_open[order]]] = True
    is_open[order] = of_keys[numbers]
    return images.take(~is_open), images.take(is_open)


def _with_moved_values(
    images: Images, moves: tuple[Places, Places], keys: Sequence[str], position: str
) -> tuple[Images, Places]:
    """Fill the values that did not arrive with a changed key by those of the row that it was.

    Also returned are the deletes of rows whose values are not among the images.
    """
    inserts, deletes = moves
    if not len(inserts):
        return images, deletes
    rows, missing = images.rows, dict(images.missing)
    order, starts = _by_key(images, keys, position)
    places = np.arange(len(order))
    # The places from `floor` to `at` - 1 are the images of the row that a delete ends: those of its
    # key since the delete before. Values come from there alone, so none of an older row is taken.
    at = np.argsort(order)[deletes]
    before = np.maximum(at - 1, 0)
    ended = np.maximum.accumulate(np.where(images.kinds[order] == RowKind.DELETE, places, -1))
    floor = np.maximum.accumulate(np.where(starts, places, 0))[at]
    floor = np.where(at > floor, np.maximum(floor, ended[before] + 1), at)
    is_open = np.zeros(len(inserts), dtype=np.bool_)
    for name, flags in images.missing.items():
        gaps, values = flags.copy(), places.copy()
        while True:  # a row may move several times
            latest = np.maximum.accumulate(np.where(gaps[order], -1, places))[before]
            found = gaps[inserts] & (at > floor) & (latest >= floor)
            if not found.any():
                break
            values[inserts[found]] = values[order[latest[found]]]
            gaps[inserts[found]] = False
        is_open |= gaps[inserts]
        column = _plain(rows, name).take(from_numpy(values))
        rows = rows.set_column(rows.column_names.index(name), name, column)
        missing[name] = gaps
    return replace(images, rows=rows, missing=missing), deletes[is_open]


def _moves(images: Images, position: str, marks: str) -> tuple[Places, Places]:
    """Return the inserts of rows whose key changed, and the deletes of these rows.

    Both have one position. None are looked for where all values of inserts arrived.
    """
    none = np.zeros(0, dtype=np.int64)
    count = len(images.kinds)
    is_new = (images.kinds == RowKind.INSERT) & ~images.stored
    if not (is_new & _any(images.missing, count)).any():
        return none, none
    return _pairs(images, is_new, _deletes(images, marks), position)


def _deletes(images: Images, marks: str) -> Flags:
    is_gone: Flags = images.kinds == RowKind.DELETE
    if marks:
        is_gone |= to_numpy(_plain(images.rows, marks).fill_null(False))  # noqa: FBT003
    return is_gone


def _pairs(images: Images, is_new: Flags, is_gone: Flags, position: str) -> tuple[Places, Places]:
    """Return inserts and deletes of the same position; stored rows are neither."""
    # A delete is followed by the insert of its pair. Where the insert is first, the two are a
    # pair only if no third image has their position.
    order = np.flatnonzero(~images.stored)
    texts = _plain(images.rows, position).fill_null("").take(from_numpy(order))
    by_text = to_numpy(pc.sort_indices(texts)).astype(np.int64)
    order, texts, count = order[by_text], texts.take(from_numpy(by_text)), len(order)
    same = np.zeros(count + 2, dtype=np.bool_)  # as the one before
    same[1:count] = to_numpy(pc.equal(texts[1:], texts[:-1]))
    new, gone = is_new[order], is_gone[order]
    after = np.flatnonzero(new[1:] & gone[:-1] & same[1:count]) + 1
    swapped = new[:-1] & gone[1:] & same[1:count] & ~same[: count - 1] & ~same[2 : count + 1]
    first = np.flatnonzero(swapped)
    pairs = np.concatenate([after, first]), np.concatenate([after - 1, first + 1])
    return order[pairs[0]], order[pairs[1]]


def _in_transactions(
    images: Images, keys: Sequence[str], position: str, marks: str
) -> tuple[Images, Places]:
    """Let the deletes of changed keys precede the rows that their transactions put there before.

    That is so if the key had a row when another was put there. Also returned are inserts that only
    the stored row of their key can decide on.
    """
    gone, count = _deletes(images, marks), len(images.kinds)
    new = (images.kinds == RowKind.INSERT) & ~images.stored & images.in_commits
    inserts, deletes = _pairs(images, new, gone & images.in_commits, position)
    put, left = np.zeros((2, count), dtype=np.bool_)
    put[inserts], left[deletes] = True, True
    texts: Any = _plain(images.rows, position).fill_null("")
    precedes = np.full(count, -1)
    while len(inserts):
        order, starts = _by_key(images, keys, position)
        ordered = texts.take(from_numpy(order))
        repeated = to_numpy(pc.equal(ordered[1:], ordered[:-1])) & ~starts[1:]
        repeated &= (np.diff(images.kinds[order]) == 0) & images.in_commits[order[:-1]]
        if repeated.any():
            once = np.ones(count, dtype=np.bool_)
            once[order[:-1][repeated]] = False
            return _in_transactions(images.take(once), keys, position, marks)
        at = np.flatnonzero(put[order[:-1]] & left[order[1:]] & ~starts[1:])
        commits: list[Any] = [
            pc.extract_regex(ordered.take(from_numpy(each)), _COMMIT).field(0)
            for each in (at, at + 1)
        ]
        at = at[to_numpy(pc.equal(*commits))]
        is_taken = ~starts[at] & ~gone[order[at - 1]]
        if not is_taken.any():
            return images, order[at[starts[at]]]
        precedes[order[at[is_taken] + 1]] = order[at[is_taken]]
        images = replace(images, precedes=texts.take(pa.array(precedes, mask=precedes < 0)))
    return images, inserts


def _plain(rows: pa.Table, name: str) -> Any:
    column: Any = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _take_values(values: Any, order: Places, sources: Places, is_missing: Flags) -> Any:
    numbers = pa.array(order[np.maximum(sources, 0)], mask=is_missing)
    return values.take(numbers)


def _differ(values: Any, left: Places, right: Places) -> Flags:
    """Return whether values differ, pair by pair; nested ones cannot be compared, so they do."""
    a, b = values.take(from_numpy(left)), values.take(from_numpy(right))
    if pa.types.is_nested(a.type):
        return to_numpy(pc.or_(a.is_valid(), b.is_valid()))
    both_null = pc.and_(a.is_null(), b.is_null())
    return ~to_numpy(pc.or_(both_null, pc.equal(a, b).fill_null(False)))  # noqa: FBT003


class Doubt(StrEnum):
    """Why the row of a key cannot be known."""

    NO_ROW = "a value did not arrive, and the table has no row of the key"
    WAS_DELETED = "a value did not arrive, and the key was deleted before"
    MAY_BE_DELETED = "it is older than a delete that the table has applied, perhaps of this key"
    MAY_BE_NEWER = (
        "it is older than the table's row and differs from it where that may have been filled in"
    )


class LogState(Value):
    """Positions of a log that a table has applied; empty is none."""

    high: str = ""
    """The highest one."""
    filled: str = ""
    """The highest one of a row with a value that did not arrive with it."""
    deleted: str = ""
    """The highest one of a delete."""
    deletes: Mapping[str, str] = field(default_factory=dict)
    """Key, as `_marks_of` names it → the position of its delete, of the newest deletes."""
    forgotten: str = ""
    """The highest position of a delete that is not among them."""

    def with_deletes(self, keys: Sequence[str], positions: Sequence[str]) -> "LogState":
        """Return the state with more deletes; the newest are remembered."""
        deletes = dict(self.deletes)
        for key, text in zip(keys, positions, strict=True):
            deletes[key] = max(text, deletes.get(key, ""))
        newest = sorted(deletes.items(), key=lambda each: each[1])
        rest, newest = newest[:-_REMEMBERED], newest[-_REMEMBERED:]
        forgotten = max(self.forgotten, *(text for _, text in rest[-1:]), "")
        return replace(self, deletes=dict(newest), forgotten=forgotten)


def _marks_of(keys: pa.Table) -> Any:
    """Return texts that stand for keys: hashes, as a ledger shows no value."""
    parts = [_plain(keys, name) for name in keys.column_names]
    parts = [
        each if pa.types.is_binary(each.type) else each.cast(pa.string()).cast(pa.binary())
        for each in parts
    ]
    joined = pc.binary_join_element_wise(*(each.fill_null(b"") for each in parts), b"\0")
    return pa.array(xxhash64(joined)).cast(pa.string())


class Settled(Value):
    """The rows to write."""

    rows: pa.Table
    kinds: Kinds
    doubts: Mapping[Doubt, pa.Table]
    """Why → keys and positions of rows that cannot be known; then nothing may be written."""
    state: LogState
    """The state once the rows are written."""
    looked_up: int = 0
    """Keys whose rows were looked up."""
    stale: int = 0
    """Keys of which the table has the newest row already."""


def settle(
    images: Images,
    keys: Sequence[str],
    position: str,
    state: LogState,
    look_up: LookUp,
    *,
    marks: str = "",
) -> Settled:
    """Fold changes, with the stored rows of keys where a value or the order depends on them.

    Rows that the column `marks` is true for may lack values without a doubt: they are deleted.

    Cost:
        A look-up of the keys with values that did not arrive, of those with an image older than
        `state.high`, and of those that a row came to and left in one transaction; none without.
    """
    if not len(images.kinds):
        return Settled(rows=images.rows, kinds=images.kinds, doubts={}, state=state)
    images, unsure = _in_transactions(images, keys, position, marks)
    moves = _moves(images, position, marks)
    images, moved = _with_moved_values(images, moves, keys, position)
    folded = fold(images, keys, position)
    is_late = to_numpy(pc.less(folded.first_positions, pa.scalar(state.high)))
    asked = is_late.copy()
    for flags in folded.missing.values():
        asked |= flags
    if asked.any() or len(moved) or len(unsure):
        names = images.rows.column_names
        wanted = {name for name, flags in images.missing.items() if len(moved) and flags.any()}
        wanted |= {marks} if len(unsure) else set()
        rest = [n for n in names if is_late.any() or n in folded.missing or n in wanted]
        keys_of = folded.rows.select(list(keys)).filter(from_numpy(asked))
        asked_for = from_numpy(np.concatenate([moved, unsure]))
        before = images.rows.select(list(keys)).take(asked_for)
        found = look_up(
            pa.concat_tables([keys_of, before]),
            [name for name in rest if name not in keys and name != position],
        )
        of_every = (moves[0] + len(found), moves[1] + len(found))
        every, _ = _in_transactions(_with_stored(images, found), keys, position, marks)
        every, _ = _with_moved_values(every, of_every, keys, position)
        folded = fold(every, keys, position, filled_to=state.filled)
    # `unborn`: rows to add that are older than some delete, of keys that the table lacks. `dead`:
    # those whose own delete is remembered, and newer. The remaining ones are in doubt if their
    # delete may be forgotten.
    positions: Any = _plain(folded.rows, position)
    adds = folded.kinds != RowKind.DELETE
    unborn = is_late & ~folded.has_stored & adds
    unborn &= to_numpy(pc.less(positions, pa.scalar(state.deleted)))
    dead = np.zeros(len(adds), dtype=np.bool_)
    if unborn.any():
        rows, known = from_numpy(unborn), state.deletes
        keys_of = _marks_of(folded.rows.select(list(keys)).filter(rows))
        places = pc.index_in(keys_of, value_set=pa.array([*known], pa.string()))
        deleted = pa.array([*known.values()], pa.string()).take(places)
        dead[unborn] = to_numpy(pc.less(positions.filter(rows), deleted).fill_null(False))  # noqa: FBT003
        unborn &= ~dead & to_numpy(pc.less(positions, pa.scalar(state.forgotten)))
    counts = adds
    if marks:
        counts = ~to_numpy(_plain(folded.rows, marks).fill_null(False))  # noqa: FBT003
    reasons = {
        Doubt.NO_ROW: counts & _any(folded.missing, len(adds)),
        Doubt.WAS_DELETED: counts & _any(folded.lost, len(adds)),
        Doubt.MAY_BE_DELETED: unborn,
        Doubt.MAY_BE_NEWER: folded.contradicts,
    }
    shown = folded.rows.select([*keys, position])
    writes = ~folded.is_stored & ~dead
    gone = from_numpy(_newest(positions, ~adds & writes))
    state = state.with_deletes(
        _marks_of(folded.rows.select(list(keys)).take(gone)).to_pylist(),
        positions.take(gone).to_pylist(),
    )
    return Settled(
        rows=folded.rows.filter(from_numpy(writes)),
        kinds=folded.kinds[writes],
        doubts={
            doubt: shown.filter(from_numpy(flags))
            for doubt, flags in reasons.items()
            if flags.any()
        },
        state=replace(
            state,
            high=_highest(state.high, images.rows.column(position)),
            filled=max(
                _highest(state.filled, positions.filter(from_numpy(writes & folded.is_filled))),
                _highest("", images.rows.column(position).take(from_numpy(moves[0]))),
            ),
            deleted=_highest(state.deleted, positions.filter(from_numpy(~adds))),
        ),
        looked_up=int(asked.sum()),
        stale=int((folded.is_stored | dead).sum()),
    )


def _newest(positions: Any, flags: Flags) -> Places:
    """Return some of the rows, the oldest first, as many as are remembered and one more."""
    rows = np.flatnonzero(flags)
    order: Places = to_numpy(pc.sort_indices(positions.take(from_numpy(rows)))).astype(np.int64)
    return rows[order[-_REMEMBERED - 1 :]]


def _with_stored(images: Images, found: pa.Table) -> Images:
    """Return stored rows and images; of equal positions the image counts, so it is last."""
    count = found.num_rows
    absent = [name for name in images.rows.column_names if name not in found.column_names]
    none = np.zeros(count, dtype=bool)
    return Images(
        rows=pa.concat_tables([found, images.rows], promote_options="permissive").select(
            images.rows.column_names
        ),
        kinds=np.concatenate([np.zeros(count, dtype=np.int8), images.kinds]),
        missing={
            **{name: np.concatenate([none, flags]) for name, flags in images.missing.items()},
            **{
                name: np.concatenate([~none, np.zeros(len(images.kinds), dtype=bool)])
                for name in absent
                if name not in images.missing
            },
        },
        stored=np.concatenate([~none, np.zeros(len(images.kinds), dtype=bool)]),
        in_commits=np.concatenate([none, images.in_commits]),
    )


def _any(flags_of: Mapping[str, Flags], count: int) -> Flags:
    result = np.zeros(count, dtype=np.bool_)
    for flags in flags_of.values():
        result |= flags
    return result


def _highest(known: str, positions: Any) -> str:
    return max(known, pc.max(positions).as_py() or "")


def position_texts(epoch: int, numbers: Sequence[Any]) -> Any:
    """Return texts in the order of numbers of 19 digits at most, above those of earlier epochs.

    >>> position_texts(2, [pa.array([3]), pa.array([40])])[0].as_py()
    '002:0000000000000000003:0000000000000000040'
    """
    return pc.binary_join_element_wise(f"{epoch:03}", number_texts(numbers), ":")


def number_texts(numbers: Sequence[Any]) -> Any:
    """Return texts in the order of some numbers."""
    parts: Any = [pc.utf8_lpad(pc.cast(part, pa.string()), 19, "0") for part in numbers]
    return pc.binary_join_element_wise(*parts, ":")
