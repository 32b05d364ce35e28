"""The columns and rows that a query needs of its tables, by Spark's own optimizer.

    query ─ a placeholder for each table ─▶ Spark's optimized plan ─ `needs` ─▶ columns and filters
      └─ the same query, with reads of that much ─▶ rows

A Python stage gives all columns and rows of the read it was made for: no `select` or `where` behind
it reaches it. So a query is analysed twice. A placeholder is a stage that is never run; the
optimizer knows nothing of it but its columns, and conditions above it hold for any rows.
A Connect client is not shown the plan: there, tables are read whole where Spark's reader cannot.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import uuid4

from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.opening import current_spec
from paimon_assets.engine.spec.predicate.predicate import (
    CompareOp,
    Comparison,
    In,
    IsNull,
    Predicate,
    StartsWith,
    all_of,
    any_of,
)
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    TypeRoot,
)
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.read.plan import counted_columns, fitting_parts
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.spark.dataframes.tables import to_spark
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.plans import attribute_id, items
from paimon_assets.spark.python_rows import SessionCache
from paimon_assets.spark.shortcuts.driver_read import is_driver_read
from paimon_assets.spark.shortcuts.native_read.scans import is_native, read_natively
from paimon_assets.spark.types import compares_as_spark, quote, to_spark_schema

_COMPARISONS = {
    "EqualTo": CompareOp.EQ,
    "LessThan": CompareOp.LT,
    "LessThanOrEqual": CompareOp.LE,
    "GreaterThan": CompareOp.GT,
    "GreaterThanOrEqual": CompareOp.GE,
}
_MOST_VALUES = 1000
"""Values of an IN, each of which is asked of the JVM."""
_MOST_DEPTH = 32
_FEW_FILES = 64
"""Files that Spark opens sooner than a query is analysed twice."""
_MICRO_NANOS = 1000
_LEAST_VIEW_BYTES = 64 * 1024
"""The least weight of a view: its plan and the names of its files take memory too."""
_views = SessionCache(64 * 1024 * 1024)
"""Views of relations, by bytes."""
_BETWEEN, _ID = "\ue000", re.compile(r"#(\d+)[^#]*$")
_FIRST_NUMBER = -7_215_331_004_001
"""Where the numbers of placeholders begin; no range of anybody else's begins there."""


class Need(Value):
    """The part of a table that a query looks at."""

    columns: frozenset[str] | None = None
    predicate: Predicate | None = None
    """Rows for which it is not true change nothing. Spark filters the rest again."""

    def __or__(self, other: "Need") -> "Need":
        columns = None
        if self.columns is not None and other.columns is not None:
            columns = self.columns | other.columns
        predicate = None
        if self.predicate is not None and other.predicate is not None:
            predicate = any_of([self.predicate, other.predicate])
        return Need(columns=columns, predicate=predicate)


def placeholder(session: SparkSession, read: ReadBuilder, number: int) -> DataFrame:
    """Return a DataFrame with the columns of a query's read, which is not to be run."""
    numbered = session.range(_FIRST_NUMBER, _FIRST_NUMBER + number)
    return numbered.mapInArrow(lambda _: iter(()), to_spark_schema(read.fields()))


def relation(session: SparkSession, read: ReadBuilder) -> Any | None:
    """Return a read as a view over Spark's own reader, for `show_view`; None if it cannot open all.

    Also None of more than `_FEW_FILES`: of those a filter of the query may leave out some.
    A session keeps its views, whose plans are analysed, by the bytes of bits that mark rows.
    """
    plan = read.plan()
    files = [file for split in plan.splits for file in split.data_files]
    if not (0 < len(files) <= _FEW_FILES and is_native(session)):
        return None
    context = replace(plan.context, file_io=current_spec(plan.context.file_io))
    schema = context.schema
    options = tuple(sorted(schema.options.items()))
    key = (schema.id, options, context.columns, context.predicate, tuple(plan.splits))
    view = _views.get(session, key)
    if view is None:
        is_small = is_driver_read(session, context, plan.splits)
        runner = EmbeddedExecutor() if is_small else SparkExecutor(session)
        rows, left = read_natively(session, context, plan.splits, runner)
        if rows is None or left:
            return None
        view = _view_of(session, rows)
        # Files elsewhere may be replaced by their owners.
        if context.fallback is None and all(file.external_path is None for file in files):
            masked = sum(split.row_count for split in plan.splits if not split.raw_convertible)
            _views.keep(session, key, view, max(_LEAST_VIEW_BYTES, masked // 8))
    return view


def _view_of(session: SparkSession, rows: DataFrame) -> Any:
    name, views = f"paimon_{uuid4().hex}", temporary_views(session)
    rows.createTempView(name)
    view = views.getRawTempView(name).get()
    views.dropTempView(name)
    return view


def show_view(session: SparkSession, name: str, view: Any) -> None:
    """Give a name to a DataFrame, or to a `relation`, whose plan is not analysed again."""
    if isinstance(view, DataFrame):
        view.createTempView(name)
    else:
        temporary_views(session).createTempView(name, view, False)  # noqa: FBT003 - as Java has it


def temporary_views(session: SparkSession) -> Any:
    """Return Spark's own catalog: its public calls run a command for each view, for 10 ms."""
    java: Any = session._jsparkSession  # noqa: SLF001
    return java.sessionState().catalog()


def narrow_read(session: SparkSession, read: ReadBuilder, need: Need | None) -> DataFrame:
    """Return the rows of a read; unneeded columns hold any value of their types."""
    fields = read.fields()
    names = [each.name for each in fields]
    # Of names that differ in case only, Spark could not say which are needed.
    if need is None or len({name.lower() for name in names}) < len(names):
        return to_spark(read, session)
    fitting = fitting_parts(need.predicate, read.read_schema())
    read = read.with_filter(fitting)
    unread = {
        column.name: value
        for column in to_spark_schema(fields)
        if need.columns is not None
        and column.name not in need.columns
        and (value := _any_value(column)) is not None
    }
    if not unread:
        return to_spark(read, session)
    needed = [name for name in names if name not in unread]
    rows = read.with_columns(needed or counted_columns(read.read_schema(), fitting))
    # A text: each column of a `select` is some twenty calls of the JVM.
    columns = [f"{unread.get(name, quote(name))} AS {quote(name)}" for name in names]
    text = ", ".join(columns).replace("{", "{{").replace("}", "}}")
    return session.sql(f"SELECT {text} FROM {{rows}}", rows=to_spark(rows, session))


def needs(query: DataFrame, reads: Sequence[ReadBuilder]) -> dict[int, Need]:
    """Return the columns and filters that a query needs of each read, by their numbers from 1.

    One that is not found in its plan needs all, and so do all where the plan is not shown.

    Cost:
        Spark's analysis and optimization of the query; nothing runs.
    """
    of_jvm = getattr(query, "_jdf", None)
    if of_jvm is None or not reads:
        return {}
    needed: dict[int, Need] = {}
    try:
        plan = of_jvm.queryExecution().optimizedPlan()
        for root in (plan, *items(plan.subqueriesAll())):
            for number, need in _needed_columns(root, reads):
                needed[number] = needed[number] | need if number in needed else need
    except Py4JError:  # a plan this was not written for
        return {}
    return needed


def shows_plans(session: SparkSession) -> bool:
    """Whether `needs` finds anything: not through Connect."""
    return hasattr(session, "_jsparkSession")


def _any_value(column: StructField) -> str | None:
    """Return a value of a column's type, not null if the column cannot be; None if it has none."""
    value = "NULL"
    if "time(" in column.dataType.simpleString():  # Spark 4.1 casts nothing to TIME
        return None
    if not column.nullable:
        match column.dataType:
            case StringType():
                value = "''"
            case NumericType() | BooleanType():
                value = "0"
            case DateType() | TimestampType() | TimestampNTZType():
                value = "'1970-01-01'"
            case _:
                return None
    return f"CAST({value} AS {_sql_type(column.dataType)})"


def _sql_type(data_type: DataType) -> str:
    match data_type:
        case ArrayType(elementType=element):
            return f"ARRAY<{_sql_type(element)}>"
        case MapType(keyType=key, valueType=value):
            return f"MAP<{_sql_type(key)}, {_sql_type(value)}>"
        case StructType(fields=fields):
            inner = (f"{quote(each.name)}: {_sql_type(each.dataType)}" for each in fields)
            return f"STRUCT<{', '.join(inner)}>"
        case _:
            return str(data_type.simpleString())


def _needed_columns(
    node: Any,
    reads: Sequence[ReadBuilder],
    columns: frozenset[int] | None = None,
    conditions: tuple[Any, ...] = (),
) -> Iterator[tuple[int, Need]]:
    """Yield the needs of a plan for each placeholder."""
    kind = _kind(node)
    child = node.child() if kind.endswith("MapInArrow") else None
    if child is not None and _kind(child) == "Range" and int(child.start()) == _FIRST_NUMBER:
        number = int(child.end()) - _FIRST_NUMBER
        known = dict(zip(_attribute_ids(node.output()), reads[number - 1].fields(), strict=True))
        names = None
        if columns is not None:
            names = frozenset(each.name for key, each in known.items() if key in columns)
        filters = [_predicate(condition, known) for condition in conditions]
        yield number, Need(columns=names, predicate=all_of(filters))
        return
    if kind in ("Project", "Aggregate"):
        columns, conditions = _references(node), ()
    elif kind == "Filter":
        columns = None if columns is None else columns | _references(node)
        conditions = (*conditions, node.condition())
    else:
        columns, conditions = None, ()
    for child in items(node.children()):
        yield from _needed_columns(child, reads, columns, conditions)


def _predicate(condition: Any, known: Mapping[int, DataField], depth: int = 0) -> Predicate | None:
    """Return a predicate that is true wherever a condition of Spark's is; None for none."""
    kind = _kind(condition)
    if depth > _MOST_DEPTH:
        return None
    if kind in ("And", "Or"):
        sides = [
            _predicate(side, known, depth + 1) for side in (condition.left(), condition.right())
        ]
        if kind == "And":
            return all_of(sides)
        certain = [side for side in sides if side is not None]
        return any_of(certain) if len(certain) == len(sides) else None
    if kind in ("IsNull", "IsNotNull"):
        column = _column(condition.child(), known)
        return None if column is None else IsNull(column.name, negated=kind == "IsNotNull")
    if kind == "StartsWith":
        return _compare(CompareOp.EQ, condition.left(), condition.right(), known, prefix=True)
    if kind in _COMPARISONS:
        op, left, right = _COMPARISONS[kind], condition.left(), condition.right()
        if _kind(left) == "Literal":
            op, left, right = op.mirror, right, left
        return _compare(op, left, right, known)
    if kind in ("In", "InSet"):
        return _one_of(condition, kind, known)
    return None


def _compare(
    op: CompareOp, left: Any, right: Any, known: Mapping[int, DataField], *, prefix: bool = False
) -> Predicate | None:
    column = _column(left, known)
    if column is None or _kind(right) != "Literal":
        return None
    value = _value(right.value(), column)
    if value is None:
        return None
    return StartsWith(column.name, str(value)) if prefix else Comparison(column.name, op, value)


def _one_of(condition: Any, kind: str, known: Mapping[int, DataField]) -> Predicate | None:
    if kind == "In":
        column, values = _column(condition.value(), known), condition.list()
    else:
        column, values = _column(condition.child(), known), condition.hset().toSeq()
    if column is None or values.size() > _MOST_VALUES:
        return None
    listed = list(items(values))
    if kind == "In":
        if any(_kind(each) != "Literal" for each in listed):
            return None
        listed = [each.value() for each in listed]
    # A null in the list matches nothing.
    literals = [_value(each, column) for each in listed if each is not None]
    return None if None in literals or not literals else In(column.name, tuple(literals))


def _column(expression: Any, known: Mapping[int, DataField]) -> DataField | None:
    """Return the column that an expression is, if both engines compare its values alike."""
    if _kind(expression) != "AttributeReference":
        return None
    column = known.get(attribute_id(expression))
    return column if column is not None and compares_as_spark(column.type) else None


def _value(value: Any, column: DataField) -> Literal:
    """Return a value of Catalyst's as a literal; None for null."""
    root = column.type.root
    if value is None:
        return None
    if root in CHARACTER_ROOTS:
        return str(value.toString())
    if root is TypeRoot.DECIMAL:
        return Decimal(value.toString())
    if root is TypeRoot.BOOLEAN:
        return bool(value)
    return int(value) * (_MICRO_NANOS if root in TIMESTAMP_ROOTS else 1)


def _references(node: Any) -> frozenset[int]:
    return frozenset(_attribute_ids(node.references().toSeq()))


def _attribute_ids(columns: Any) -> list[int]:
    """Return the ids of a Scala sequence of columns, by one call for all of them."""
    texts = filter(None, str(columns.mkString(_BETWEEN)).split(_BETWEEN))
    return [int(found[1]) for text in texts if (found := _ID.search(text))]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
