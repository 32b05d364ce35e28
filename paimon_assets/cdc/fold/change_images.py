"""The changes that one run reads, as images of a table's rows, with their metadata.

ChangeBatch, ChangeBatch, … ─▶ one table of images ─▶ columns that the table lacks ─▶ fold
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field

from paimon_assets.cdc.fold.change_fold import Images
from paimon_assets.cdc.records.change_batch import LOG, ChangeBatch, EventKind, TableEvent
from paimon_assets.cdc.records.connectors import begin_with_commits
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import SHORT_TEXTS, RowKind
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten

OP, POSITION = "_op", "_position"
"""Columns that a table fed by a log has beside its own: the row kind, and the position."""
MISSING = "_missing"
"""Column of a history: names of the columns whose value did not arrive, joined by commas."""
UNFIT = "__unfit."
"""Before the name of a column: which values its type does not hold, until changes are folded."""
SOURCE = ("database", "schema", "table")
METADATA_TYPES: Mapping[str, str] = {
    **dict.fromkeys(SOURCE, "STRING"),
    LOG: "STRING",
    "op_time": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "file": "STRING",
    "line": "BIGINT",
}
"""Metadata of a record → its type; other names are texts of the format."""


class ReadChanges(Value, dict=True):
    """The changes of one source table that a run has read, in the order of files and lines."""

    batches: Sequence[ChangeBatch]
    metadata: frozenset[str] = frozenset()
    """Columns that say something of the record."""
    gone: frozenset[str] = frozenset()
    """Columns that the source has no more, and that are not taken."""
    columns: frozenset[str] = frozenset()
    """Columns of the source; older records that tell all columns have null there."""
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Column → Arrow type, of those whose values are missing where a record has no such member: all
    that are not inserted whole."""

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def name(self) -> str:
        """The source table's."""
        return self.batches[0].name

    @cached_property
    def rows(self) -> pa.Table:
        """The columns taken; raises as `joined`."""
        tables = [
            batch.rows.drop_columns([n for n in batch.rows.column_names if n in self.gone])
            for batch in self.batches
        ]
        names = {name for table in tables for name in table.column_names}
        lacking = {name: kind for name, kind in self.expected.items() if name not in names}
        tables.append(pa.schema(lacking).empty_table())
        return join_images(tables, self.name)

    @cached_property
    def kinds(self) -> Kinds:
        """The row kind of each image."""
        return np.concatenate([batch.kinds for batch in self.batches]).astype(np.int8)

    @cached_property
    def missing(self) -> dict[str, Flags]:
        """Column → images whose value did not arrive."""
        names = {*self.expected}.union(*(batch.missing for batch in self.batches)) - self.gone
        found = {
            name: np.concatenate([self._missing(batch, name) for batch in self.batches])
            for name in sorted(names)
        }
        arrived = np.zeros(len(self), dtype=np.bool_)
        marks = [name for name in self.rows.column_names if name.startswith(UNFIT)]
        return {
            **{name: flags for name, flags in found.items() if flags.any()},
            **{name: found.get(name.removeprefix(UNFIT), arrived) for name in marks},
        }

    def _missing(self, batch: ChangeBatch, name: str) -> Flags:
        if name in batch.missing:
            return batch.missing[name]
        is_null = batch.has_all_columns and name in self.columns
        if name not in self.expected or is_null or name in batch.rows.column_names:
            return np.zeros(len(batch), dtype=np.bool_)
        return ~_inserted_whole(batch)

    @cached_property
    def origin(self) -> pa.Table:
        """Where the images come from."""
        return pa.concat_tables([batch.origin for batch in self.batches])

    def events(self, *kinds: EventKind) -> list[tuple[int, TableEvent]]:
        """Return events of some kinds, each with the number of images before it."""
        starts = [0, *accumulate(map(len, self.batches))]
        return [
            (start + event.before_row, event)
            for start, batch in zip(starts, self.batches, strict=False)
            for event in batch.events
            if event.kind in kinds
        ]

    def refuse_lost_tables(self, table: str) -> None:
        """Refuse events after which the source table is another one, or none.

        Raises:
            InvalidInputError: Kind `cdc-event`.
        """
        for _, event in self.events(EventKind.DROP, EventKind.RENAME):
            file, line = event.origin["file"], event.origin["line"]
            statement = f", {shorten([event.statement])}" if event.statement else ""
            message = (
                f"The source '{self.name}' of table '{table}' was dropped or renamed: '{file}', "
                f"line {line}{statement}. Nothing was committed. Let the asset read the new name "
                "in a folder of its own, or say on_drop='ignore'."
            )
            raise InvalidInputError(message, kind="cdc-event", table=table, file=str(file))


def join_images(tables: Sequence[pa.Table], source: str) -> pa.Table:
    """Return the rows of tables one after the other, in types that hold all of them.

    Raises:
        InvalidInputError: Kind `cdc-types`: a column has types that no type holds both of.
    """
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        message = (
            f"The records of '{source}' hold a column in types that do not go together: "
            f"{error}. Say schema_policy='sync' and ChangeLog(on_narrowed='keep')."
        )
        raise InvalidInputError(message, kind="cdc-types", table=source) from error


def _inserted_whole(batch: ChangeBatch) -> Flags:
    """Return which rows are inserts, other than those of an update that changed the key."""
    inserts: Flags = batch.kinds == RowKind.INSERT
    lines = batch.origin["line"].to_numpy()
    follows = (batch.kinds[:-1] == RowKind.DELETE) & (np.diff(lines) == 0)
    inserts[1:] &= ~follows
    return inserts


def images_of(
    changes: ReadChanges, positions: Any, keys: Sequence[str], *, soft_deletes: str
) -> Images:
    """Return images to fold: without -U, with kind and position; deletes may be marks.

    Args:
        changes: The changes of the run.
        positions: Texts.
        keys: Columns of the table's key.
        soft_deletes: Column that marks deleted rows, which stay; empty: they are removed.
    """
    kinds, rows = changes.kinds.copy(), changes.rows
    missing = dict(changes.missing)
    if soft_deletes:
        is_delete = kinds == RowKind.DELETE
        kinds[is_delete] = RowKind.UPDATE_AFTER
        for name in rows.column_names if is_delete.any() else ():
            if name not in {*keys, *changes.metadata}:
                missing[name] = missing.get(name, False) | is_delete
        rows = rows.append_column(soft_deletes, from_numpy(is_delete))
    images = Images(
        rows=with_log_columns(rows, kinds, positions),
        kinds=kinds,
        missing=missing,
        stored=np.zeros(len(kinds), dtype=bool),
        in_commits=begin_with_commits(changes.origin[LOG].combine_chunks()),
    )
    is_image = kinds != RowKind.UPDATE_BEFORE
    return images if is_image.all() else images.take(is_image)


def with_log_columns(rows: pa.Table, kinds: Kinds, positions: Any) -> pa.Table:
    """Add the columns of the row kind and of the position.

    Raises:
        InvalidInputError: Kind `cdc-column`: the records have such a column.
    """
    for name in (OP, POSITION):
        if name in rows.column_names:
            message = (
                f"The records have a column '{name}', which the table needs for the log. Leave it "
                "out (omitted)."
            )
            raise InvalidInputError(message, kind="cdc-column", column=name)
    texts = pa.array([SHORT_TEXTS[kind] for kind in RowKind])
    return rows.append_column(OP, texts.take(from_numpy(kinds))).append_column(POSITION, positions)


def missing_names(changes: ReadChanges) -> Any:
    """Return, of each image, the names of the columns whose value did not arrive, or null."""
    join_images: Any = pa.repeat(pa.scalar(""), len(changes))
    for name, flags in changes.missing.items():
        part = pc.if_else(from_numpy(flags), f"{name},", "")
        join_images = pc.binary_join_element_wise(join_images, part, "")
    is_none = pc.equal(join_images, pa.scalar(""))
    return pc.if_else(is_none, pa.scalar(None, pa.string()), pc.utf8_rtrim(join_images, ","))
