"""UPDATE and DELETE whose conditions or values only Spark computes.

    table at its newest snapshot ─ query ─▶ keys of the rows, new values ─ merge ─▶ one commit

A row is identified by its primary key. Rows of a table without one are identified by all those that
the statement looks at: rows equal in those meet the same condition and get the same values. The
commit is refused if the table changed since the query, and the statement is run again.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.predicate.predicate import Expression, SourceValue, functions_of
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, DataType, RowType
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.row_change import READ_CHANGED, WhenMatched, unchanged_since
from paimon_assets.spark.dataframes.merge import FrameSource
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.types import quote
from paimon_assets.sql.run import Runner, plain_change
from paimon_assets.sql.spark.assignment_casts import cast_for_storage, column_named
from paimon_assets.sql.spark.frames import Frames
from paimon_assets.sql.statements import Delete, Update, outcome
from paimon_assets.sql.table_uses import names_in
from paimon_assets.sql.words import without_qualifiers, words_of

TARGET = "__paimon_target"
_MOST_TRIES = 5
_ARBITRARY = frozenset(
    {"rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "randstr"}
)
_OTHER_TEXTS = {
    "spark.sql.ansi.doubleQuotedIdentifiers": re.compile('"'),
    "spark.sql.parser.escapedStringLiterals": re.compile(r"['\"].*\\", re.DOTALL),
}
"""Settings of Spark → the texts that mean something else then."""
OutcomeT = TypeVar("OutcomeT")


class Seen(Value):
    """A table as a statement saw it."""

    table: Table
    snapshot: Snapshot | None
    rows: DataFrame

    @property
    def schema(self) -> TableSchema:
        return self.table.schema

    @classmethod
    def of(cls, table: Table, frames: Frames) -> "Seen":
        newest = table.copy({}).refresh()  # the caller's stays
        plan = newest.new_read_builder().plan()
        rows = SparkExecutor(frames.session).to_dataframe(plan.context, plan.splits)
        return cls(table=newest, snapshot=plan.snapshot, rows=rows)

    @property
    def unless_changed(self) -> Condition:
        """Return a commit check that raises if another commit changed rows since."""
        return unchanged_since(self.table.new_read_builder().store, self.snapshot)


def until_unchanged(run: Callable[[], OutcomeT]) -> OutcomeT:
    """Run a statement again, a few times, if another commit changed its rows."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return run()
        except errors.CommitConflictError as conflict:
            if conflict.kind != READ_CHANGED:
                raise
    return run()


def change_rows(frames: Frames, runner: Runner, statement: Update | Delete) -> pa.Table:
    table = frames.catalog.get_table(statement.table)
    _refuse_other_texts(frames, statement)
    try:
        where, _ = plain_change(table.schema, statement)
        is_plain = next(functions_of(where), None) is None  # functions and casts are Spark's here
    except errors.InvalidInputError:
        is_plain = False
    if is_plain:
        return runner.change(table, statement)
    return until_unchanged(lambda: _compute(frames, table, statement))


def _refuse_other_texts(frames: Frames, statement: Update | Delete) -> None:
    """Refuse texts that a setting of the session lets Spark read in another way than we do."""
    values = statement.assignments if isinstance(statement, Update) else ()
    for text in [statement.where or "", *(value for _, value in values)]:
        texts = [text[w.start : w.end] for w in words_of(text) if w.kind == "text"]
        for setting, pattern in _OTHER_TEXTS.items():
            other = next(filter(pattern.match, texts), None)
            if other and str(frames.session.conf.get(setting, "false")).lower() == "true":
                raise errors.UnsupportedFeatureError(
                    f"An UPDATE or DELETE with {other} is not taken while {setting} is set;"
                    " unset it, and write texts in single quotes and names in backticks.",
                    kind="statement-unsupported",
                    setting=setting,
                )


def _compute(frames: Frames, table: Table, statement: Update | Delete) -> pa.Table:
    seen = Seen.of(table, frames)
    schema = seen.schema
    alias = statement.alias or statement.table.table

    def own(text: str) -> str:
        return by_alias(text, statement.table, alias, frames.names.catalog)

    values: dict[str, str] = {}
    if isinstance(statement, Update):
        assignments = [(path, own(text)) for path, text in statement.assignments]
        values = assign_columns(schema, assignments, alias, table.name)
    where = "" if statement.where is None else f" WHERE {own(statement.where)}"
    names = named_by(schema, [*values.values(), where], table.name)
    sets = {name: f"__set_{place}" for place, name in enumerate(values)}
    columns = [f"{quote(alias)}.{quote(name)} AS {quote(name)}" for name in names]
    columns += [f"{values[name]} AS {place}" for name, place in sets.items()]
    distinct = "" if schema.has_primary_key else "DISTINCT "
    text = f"SELECT {distinct}{', '.join(columns)} FROM {TARGET} AS {quote(alias)}{where}"
    rows = frames.query(text, {TARGET: seen.rows})
    source = rows.select(
        *(sf.col(quote(name)) for name in names),
        *(
            cast_for_storage(rows, place, schema.column(name), table.name).alias(place)
            for name, place in sets.items()
        ),
    )
    refuse_nulls(schema, source, names, table.name)
    taken: Mapping[str, Expression] = {n: SourceValue(place) for n, place in sets.items()}
    builder = seen.table.new_row_change_builder().with_condition(seen.unless_changed)
    with closing(FrameSource.of(table.name, schema, source, names)) as merged:
        matched = taken if isinstance(statement, Update) else WhenMatched.DELETE
        done = builder.merge_from(merged, when_matched=matched, inserts=False)
    verb = "UPDATE" if isinstance(statement, Update) else "DELETE"
    return outcome(verb, table.name, done.snapshot, matched=done.rows_matched)


def by_alias(text: str, table: Identifier, alias: str, catalog: str) -> str:
    """Return an expression that names a table's columns by its alias, not by its database."""
    full = (table.database, table.table)
    return without_qualifiers(text, [full, (catalog, *full)], f"{quote(alias)}.")


def named_by(
    schema: TableSchema, texts: Sequence[str], table: str, source: str | None = None
) -> list[str]:
    """Return the columns that name the rows of a table, for expressions that look at some."""
    if schema.has_primary_key:
        return list(schema.primary_keys)
    used: set[str] = set()
    for text in texts:
        condition = text.removeprefix(" WHERE ")
        if condition:
            used |= {name.lower() for name in names_in(f"SELECT ({condition})", source)}
            words = pairwise(words_of(condition))
            calls = {word.text.lower() for word, behind in words if behind.text == "("}
            if arbitrary := sorted(calls & _ARBITRARY):
                raise errors.UnsupportedFeatureError(
                    f"{arbitrary[0]}() is another value each time, and rows of table '{table}' have"
                    " no primary key that identifies them; write its values into a column first.",
                    kind="statement-unsupported",
                    table=table,
                )
    names = [name for name in schema.field_names if name.lower() in used]
    return names or list(schema.field_names)


def refuse_nulls(schema: TableSchema, rows: DataFrame, names: Sequence[str], table: str) -> None:
    """Refuse rows that are named by columns in which they have no value."""
    for name in names:
        if (
            schema.column(name).type.nullable
            and rows.where(sf.col(quote(name)).isNull()).limit(1).count()
        ):
            message = (
                f"Rows of table '{table}' have no primary key, and some to be changed have null in"
                f" column '{name}', by which they would be found. Change those by a statement of"
                f" their own ({name} IS NULL), and leave them out here."
            )
            raise errors.InvalidInputError(message, kind="change-null", table=table, column=name)


def assign_columns(
    schema: TableSchema, assignments: Sequence[tuple[tuple[str, ...], str]], alias: str, table: str
) -> dict[str, str]:
    """Return column → the expression of its new value; parts of a struct become the whole."""
    trees: dict[str, dict[tuple[str, ...], str]] = {}
    for path, text in assignments:
        known = {name.lower() for name in schema.field_names}
        # A column of the alias's name wins where it must.
        has_alias = len(path) > 1 and path[0].lower() == alias.lower()
        is_column = has_alias and path[0].lower() in known and path[1].lower() not in known
        name, *inner = path[1:] if has_alias and not is_column else path
        parts = trees.setdefault(column_named(schema, name).name, {})
        field = tuple(inner)
        if any(p[: len(field)] == field or field[: len(p)] == p for p in parts):
            raise errors.InvalidInputError(f"'{'.'.join(path)}' is set twice.", kind="statement")
        parts[field] = text
    return {
        name: _whole(schema.column(name).type, f"{quote(alias)}.{quote(name)}", parts, name)
        for name, parts in trees.items()
    }


def _whole(data_type: DataType, here: str, parts: Mapping[tuple[str, ...], str], label: str) -> str:
    """Return a struct with new values in some of its fields; the new value itself, if it is all."""
    if () in parts:
        return f"({parts[()]})"
    if not parts:
        return here
    fields: Sequence[DataField] = data_type.fields if isinstance(data_type, RowType) else ()
    unknown = {path[0].lower() for path in parts} - {field.name.lower() for field in fields}
    if unknown:
        raise errors.InvalidInputError(
            f"Column '{label}' has no field '{min(unknown)}'.", kind="column-not-found"
        )
    inner = []
    for field in fields:
        below = {p[1:]: t for p, t in parts.items() if p[0].lower() == field.name.lower()}
        text = _whole(field.type, f"{here}.{quote(field.name)}", below, f"{label}.{field.name}")
        name = field.name.replace("'", "\\'")
        inner += [f"'{name}'", text]
    return f"named_struct({', '.join(inner)})"
