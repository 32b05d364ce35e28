"""MERGE INTO: any WHENs, in one commit.

    target at its newest snapshot ─┐   ┌ matched: the row's key, new values, whether to delete it
                                   ├───┤                                              ├─▶ one merge
    source, kept meanwhile ────────┘   └ not matched: a new row, named by nothing     ┘

Spark joins and decides which WHEN a row meets; the engine's merge finds the rows again by their
keys (see `changes`), changes them and inserts the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import Expression, SourceValue
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.write.row_change import WhenMatched
from paimon_assets.spark.dataframes.merge import FrameSource
from paimon_assets.spark.dataframes.tables import write_dataframe
from paimon_assets.spark.types import quote, to_spark_type
from paimon_assets.sql.spark import changes
from paimon_assets.sql.spark.assignment_casts import cast_for_storage
from paimon_assets.sql.spark.frames import Frames
from paimon_assets.sql.statements import Acts, Meets, Merge, When, outcome
from paimon_assets.sql.table_uses import conjuncts, equal_columns

_SOURCE = "__paimon_source"
_DELETES, _INSERTS = "__deletes", "__inserts"


def merge_rows(frames: Frames, statement: Merge) -> pa.Table:
    query = f"SELECT {quote(statement.source_alias)}.* FROM {statement.source}"
    source = frames.query(query).persist(StorageLevel.DISK_ONLY)

    def run() -> pa.Table:
        seen = changes.Seen.of(frames.catalog.get_table(statement.table), frames)
        return _Plan(frames=frames, statement=statement, seen=seen, source=source).run()

    try:
        return changes.until_unchanged(run)
    finally:
        source.unpersist()


class _Plan(Value):
    """One MERGE over a table as it is now."""

    frames: Frames
    statement: Merge
    seen: changes.Seen
    source: DataFrame

    @property
    def alias(self) -> str:
        return self.statement.alias or self.statement.table.table

    @property
    def schema(self) -> TableSchema:
        return self.seen.schema

    @property
    def label(self) -> str:
        return self.seen.table.name

    def run(self) -> pa.Table:
        changing = self._whens(Meets.MATCHED, Meets.NOT_BY_SOURCE)
        inserting = self._whens(Meets.NOT_MATCHED)
        new = self._new_rows(inserting) if inserting else None
        if not changing:
            return self._insert(new)
        texts = [self.statement.on, *(when.condition or "" for when in changing)]
        texts += [text for when in changing for _, text in when.values or ()]
        own, sets = list(map(self._own, texts)), self._set_columns(changing)
        try:
            return self._merge(changing, new, own, sets)
        except InvalidInputError as error:
            kept = [] if self.schema.has_primary_key else self._kept_columns(changing, sets)
            if error.kind != "merge-duplicates" or not kept:
                raise
        # Equal rows, as far as the texts look, may differ in columns that some WHEN leaves.
        return self._merge(changing, new, [*own, *kept], sets)

    def _merge(
        self,
        changing: Sequence[When],
        new: DataFrame | None,
        texts: Sequence[str],
        sets: Mapping[str, str],
    ) -> pa.Table:
        names = changes.named_by(self.schema, texts, self.label, self.statement.source_alias)
        frames = [
            self._change_rows(meets, names, sets)
            for meets in (Meets.MATCHED, Meets.NOT_BY_SOURCE)
            if self._whens(meets)
        ]
        if new is not None:  # the other columns are null: nothing matches these rows
            empty = [*zip(names, names, strict=True), *sets.items()]
            nulls = [sf.lit(None).cast(self._type(name)).alias(place) for name, place in empty]
            frames.append(new.select("*", *nulls))
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        acts = {when.acts for when in changing}
        matched: WhenMatched | Mapping[str, Expression] = WhenMatched.DELETE
        if acts != {Acts.DELETE}:
            matched = {name: SourceValue(place) for name, place in sets.items()}
        builder = self.seen.table.new_row_change_builder().with_condition(self.seen.unless_changed)
        with closing(FrameSource.of(self.label, self.schema, rows, names)) as merged:
            if new is not None:
                self._refuse_repeated(rows)
                merged.inserted = {n: _new(n) for n in self.schema.field_names}
                merged.inserted_if = _INSERTS
            done = builder.merge_from(
                merged,
                when_matched=matched,
                inserts=new is not None,
                deletes=_DELETES if len(acts) > 1 else None,
            )
        return outcome(
            "MERGE INTO",
            self.label,
            done.snapshot,
            matched=done.rows_matched,
            inserted=done.rows_inserted,
        )

    def _whens(self, *meets: Meets) -> list[When]:
        return [when for when in self.statement.whens if when.meets in meets]

    def _insert(self, rows: DataFrame | None) -> pa.Table:
        """Write rows that match nothing; nothing else changes."""
        if rows is None:
            raise InvalidInputError("A MERGE needs a WHEN.", kind="statement")
        builder = self.seen.table.new_write_builder().with_condition(self.seen.unless_changed)
        plain = rows.select(*(sf.col(_new(name)).alias(name) for name in self.schema.field_names))
        done = write_dataframe(builder, plain)
        count = done.report.rows_in
        return outcome("MERGE INTO", self.label, done.snapshot, matched=0, inserted=count)

    def _own(self, text: str) -> str:
        """Name the table's columns in an expression by its alias."""
        return changes.by_alias(text, self.statement.table, self.alias, self.frames.names.catalog)

    def _values(self, when: When) -> dict[str, str]:
        """Return column → expression of an UPDATE or INSERT."""
        source = quote(self.statement.source_alias)
        if when.values is None:
            have = {name.lower(): name for name in self.source.columns}
            missing = [n for n in self.schema.field_names if n.lower() not in have]
            if missing:
                raise InvalidInputError(
                    f"The source of the merge into table '{self.label}' has no column"
                    f" '{missing[0]}', which * needs; name the columns to set.",
                    kind="column-not-found",
                    table=self.label,
                    column=missing[0],
                )
            return {n: f"{source}.{quote(have[n.lower()])}" for n in self.schema.field_names}
        assignments = [((name,), self._own(text)) for name, text in when.values]
        return changes.assign_columns(self.schema, assignments, self.alias, self.label)

    def _set_columns(self, whens: Sequence[When]) -> dict[str, str]:
        """Return column → the column of the merged rows that has its new value.

        Columns that identify rows and are set to themselves, as by *, are left out.
        """
        pairs = equal_columns(self._own(self.statement.on))
        values = [(w.meets, self._values(w)) for w in whens if w.acts is Acts.UPDATE]
        used = {name for _, given in values for name in given}
        changed = {
            name
            for meets, given in values
            for name, value in given.items()
            if meets is not Meets.MATCHED or not self._is_same(name, value, pairs)
        }
        names = [name for name in self.schema.field_names if name in (changed or used)]
        names = names if changed else names[:1]
        return {name: f"__set_{place}" for place, name in enumerate(names)}

    def _is_same(self, name: str, value: str, pairs: Sequence[frozenset[str]]) -> bool:
        """Whether ON equates a column with the value of the source that it is set to."""
        sides = (f"{side}.{name}".lower() for side in (self.alias, self.statement.source_alias))
        pair = frozenset(sides)
        given = equal_columns(f"{quote(self.alias)}.{quote(name)} = {value}")
        return pair in pairs and given == [pair]

    def _kept_columns(self, whens: Sequence[When], names: Iterable[str]) -> list[str]:
        """Return the set columns that some WHEN leaves, named by the table's alias."""
        values = [self._values(w) if w.acts is Acts.UPDATE else {} for w in whens]
        kept = (name for name in names if not all(name in given for given in values))
        return [f"{quote(self.alias)}.{quote(name)}" for name in kept]

    def _refuse_repeated(self, rows: DataFrame) -> None:
        """Refuse to change the row of a key and insert another: which one stays is not known.

        Where ON compares the key alone, and its value is inserted, there are none.
        """
        keys, condition = self.schema.primary_keys, self._own(self.statement.on)
        pairs, is_key = equal_columns(condition), len(conjuncts(condition)) == len(keys)
        values = [self._values(when) for when in self._whens(Meets.NOT_MATCHED)]
        own = (
            self._is_same(name, each.get(name, "NULL"), pairs) for each in values for name in keys
        )
        if keys and not (is_key and all(own)):
            new = rows.where(_INSERTS).select(*(sf.col(_new(n)).alias(n) for n in keys))
            changed = rows.where(f"{_INSERTS} IS NULL").select(*map(quote, keys))
            for twice in new.join(changed, list(keys), "left_semi").limit(1).collect():
                message = (
                    f"The MERGE into table '{self.label}' changes the row of key {twice.asDict()}"
                    " and inserts another of it; which of them counts is not known. Compare the"
                    " primary key alone in ON, and insert the key that ON compares."
                )
                raise InvalidInputError(message, kind="merge-duplicates", table=self.label, keys=1)

    def _change_rows(
        self, meets: Meets, names: Sequence[str], sets: Mapping[str, str]
    ) -> DataFrame:
        """Return the changes of rows that match, or of rows without a match."""
        whens, target = self._whens(meets), quote(self.alias)
        columns = [f"{target}.{quote(name)} AS {quote(name)}" for name in names]
        for name, place in sets.items():
            column = f"{target}.{quote(name)}"
            choices = [
                self._values(when).get(name, column) if when.acts is Acts.UPDATE else column
                for when in whens
            ]
            columns.append(f"{self._case(whens, choices)} AS {place}")
        deletes = [str(when.acts is Acts.DELETE).lower() for when in whens]
        columns.append(f"{self._case(whens, deletes)} AS {_DELETES}")
        on = f"ON {self._own(self.statement.on)}"
        source = f"{_SOURCE} AS {quote(self.statement.source_alias)}"
        join = "JOIN" if meets is Meets.MATCHED else "LEFT ANTI JOIN"
        # A row to delete may match several source rows; so may equal rows without a key.
        only_deletes = all(when.acts is Acts.DELETE for when in whens)
        distinct = "DISTINCT " if only_deletes or not self.schema.has_primary_key else ""
        text = (
            f"SELECT {distinct}{', '.join(columns)} FROM {changes.TARGET} AS {target} {join} "
            f"{source} {on} WHERE {self._any(whens)}"
        )
        rows = self._query(text)
        typed: list[Column] = [sf.col(quote(name)) for name in names]
        typed += [
            cast_for_storage(rows, place, self.schema.column(name), self.label).alias(place)
            for name, place in sets.items()
        ]
        changed = rows.select(*typed, _DELETES)
        if not self.schema.has_primary_key:
            changes.refuse_nulls(self.schema, changed, names, self.label)
        return changed

    def _new_rows(self, whens: Sequence[When]) -> DataFrame:
        """Return the rows to insert, a column `_new` for each of the table."""
        values = [self._values(when) for when in whens]
        columns = []
        for name in self.schema.field_names:
            choices = [own.get(name, "NULL") for own in values]
            columns.append(f"{self._case(whens, choices)} AS {quote(_new(name))}")
        source = f"{_SOURCE} AS {quote(self.statement.source_alias)}"
        text = (
            f"SELECT {', '.join(columns)} FROM {source} LEFT ANTI JOIN {changes.TARGET} AS"
            f" {quote(self.alias)} ON {self._own(self.statement.on)} WHERE {self._any(whens)}"
        )
        rows = self._query(text)
        return rows.select(
            *(
                cast_for_storage(rows, _new(f.name), f, self.label).alias(_new(f.name))
                for f in self.schema.fields
            )
        ).withColumn(_INSERTS, sf.lit(True))  # noqa: FBT003 - a value, not a flag

    def _type(self, name: str) -> DataType:
        return to_spark_type(self.schema.column(name).type, column=name)

    def _query(self, text: str) -> DataFrame:
        return self.frames.query(text, {changes.TARGET: self.seen.rows, _SOURCE: self.source})

    def _case(self, whens: Sequence[When], choices: Sequence[str]) -> str:
        """Return the choice of the first WHEN that a row meets."""
        parts = [
            f"WHEN {self._condition(when)} THEN {choice}"
            for when, choice in zip(whens, choices, strict=True)
        ]
        return f"CASE {' '.join(parts)} END"

    def _condition(self, when: When) -> str:
        return "true" if when.condition is None else f"({self._own(when.condition)})"

    def _any(self, whens: Sequence[When]) -> str:
        return " OR ".join(map(self._condition, whens))


def _new(name: str) -> str:
    return f"__new_{name}"
