"""Column lineage: columns of upstream tables that a column is made of.

`lineage_metadata` is lineage as the author of an asset declares it (`pass_through`); `lineage_of`
reads it from the plan of a lazy frame:

    load_input ─▶ note_input(run, step, asset, frame) ─▶ the function ─▶ its frame ─▶ lineage_of

Only a polars LazyFrame and a Spark DataFrame have a plan. A column with any part from elsewhere, or
through a step the plan does not explain (a Python function, an unnest), has no lineage: what is
shown is complete. Filters, orders and join conditions choose rows and make no values, so they are
no lineage.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify

from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.provenance import StepMemory
from paimon_assets.assets.translator import DEFAULT_TRANSLATOR, PaimonTranslator
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.frames.frames import Frame, is_spark_frame
from paimon_assets.executors import spark_module

logger = logging.getLogger(__name__)

COLUMN_LINEAGE = "dagster/column_lineage"

PassThrough = Mapping[dg.AssetKey, Sequence[str] | Mapping[str, str | Sequence[str]]]
"""Upstream asset → columns that keep their names, or column here → column or columns there."""


def lineage_metadata(pass_through: PassThrough, schema: Schema, table: str) -> Metadata:
    """Return column lineage as metadata; empty if there is none.

    >>> schema = Schema.of({"id": "BIGINT", "name": "STRING"})
    >>> upstream = dg.AssetKey(["ods", "people"])
    >>> found = lineage_metadata({upstream: {"name": "full_name"}}, schema, "dm.people")
    >>> found["dagster/column_lineage"].deps_by_column["name"][0].column_name
    'full_name'
    """
    names = [field.name for field in schema.fields]
    deps: dict[str, list[dg.TableColumnDep]] = {}
    for key, columns in pass_through.items():
        pairs: Mapping[str, str | Sequence[str]] = (
            columns if isinstance(columns, Mapping) else dict(zip(columns, columns, strict=True))
        )
        for name, sources in pairs.items():
            if name not in names:
                raise InvalidInputError(
                    f"pass_through names '{name}', which is no column of table {table}: "
                    f"{', '.join(names)}.",
                    kind="column-lineage",
                    details={"table": table, "column": name},
                )
            deps.setdefault(name, []).extend(
                dg.TableColumnDep(asset_key=key, column_name=source)
                for source in ([sources] if isinstance(sources, str) else sources)
            )
    if not deps:
        return {}
    ordered = {name: deps[name] for name in names if name in deps}
    return {COLUMN_LINEAGE: dg.TableColumnLineage(deps_by_column=ordered)}


Origin = tuple[int, str]
"""The number of an input, and a column of it."""
Origins = dict[str, frozenset[Origin] | None]
"""Column → its origins; None is unknown."""

_INPUTS = StepMemory[tuple[dg.AssetKey, Frame]]()
"""The lazy inputs of steps."""


def note_input(run_id: str, step_key: str, key: dg.AssetKey, frame: Frame) -> None:
    """Store a lazy frame as an input of a step, for `lineage_of`."""
    if _is_lazy_polars(frame) or is_spark_frame(frame):
        _INPUTS.add(run_id, step_key, (key, frame))


def lineage_of(run_id: str, step_key: str, frame: Frame) -> Metadata:
    """Return the lineage of a step's frame, and drop its stored inputs; empty if unknown."""
    inputs = _INPUTS.take(run_id, step_key)
    if not inputs or frame is None:
        return {}
    try:
        origins_by_column = _origins(frame, [each for _, each in inputs])
    except Exception:  # plans are internals of others; what fails is only not shown
        logger.debug("the plan of the frame for table columns was not understood", exc_info=True)
        return {}
    deps = {
        name: [
            dg.TableColumnDep(asset_key=inputs[number][0], column_name=column)
            for number, column in sorted(origins)
        ]
        for name, origins in origins_by_column.items()
        if origins
    }
    return {COLUMN_LINEAGE: dg.TableColumnLineage(deps_by_column=deps)} if deps else {}


def _origins(frame: Frame, inputs: Sequence[Frame]) -> Origins:
    if is_spark_frame(frame):
        return dict(spark_module("paimon_assets.spark.plans").column_origins(frame, inputs))
    if not _is_lazy_polars(frame):
        return {}
    scans = {
        id(_scan_of(each._ldf.visit().view_current_node())): number  # noqa: SLF001 - as below
        for number, each in enumerate(inputs)
        if _is_lazy_polars(each)
    }
    return _PolarsPlan(frame, scans).origins()


def _is_lazy_polars(frame: Frame) -> bool:
    kind = type(frame)
    return kind.__name__ == "LazyFrame" and kind.__module__.split(".", 1)[0] == "polars"


def _scan_of(node: Any) -> Any:
    """Return the scan function of a plan's node; None if it has none."""
    return node.options[0] if type(node).__name__ == "PythonScan" else None


_PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Alias", "Cast", "Explode", "Gather", "Sort", "SortBy"), ("expr",)),
    **dict.fromkeys(("Filter", "Function", "Slice"), ("input",)),
    **dict.fromkeys(("Len", "Literal"), ()),
    "Agg": ("arguments",),
    "BinaryExpr": ("left", "right"),
    "Ternary": ("predicate", "truthy", "falsy"),
    "Window": ("function",),
}
"""Expression of polars → its parts that values are made of."""

_SAME_COLUMNS = frozenset({"Cache", "Distinct", "Filter", "SimpleProjection", "Slice", "Sort"})
_LEFT_WINS = frozenset({"Inner", "Left", "Semi", "Anti", "Cross"})


class _PolarsPlan:
    """The plan of a LazyFrame, node by node."""

    def __init__(self, frame: Frame, scans: Mapping[int, int]) -> None:
        self._nodes = frame._ldf.visit()  # noqa: SLF001 - polars has no public plan
        self._scans = scans

    def origins(self) -> Origins:
        return self._of(self._nodes.get_node())

    def _of(self, number: int) -> Origins:
        self._nodes.set_node(number)
        node: Any = self._nodes.view_current_node()
        names = list(self._nodes.get_schema())
        inputs = self._nodes.get_inputs()
        kind = type(node).__name__
        if not inputs:
            return self._source(node, names)
        befores = [self._of(each) for each in inputs]
        before = befores[0]
        self._nodes.set_node(number)  # where expressions are looked at
        match kind:
            case _ if kind in _SAME_COLUMNS:
                return {name: before[name] for name in names}
            case "Select":
                return self._make(node.expr, before)
            case "HStack":
                return {**before, **self._make(node.exprs, before)}
            case "GroupBy" if not node.apply:
                return self._make([*node.keys, *node.aggs], before)
            case "Join" if str(node.options[0]) in _LEFT_WINS:
                return _join(names, befores, str(node.options[3]))
            case "Union":
                return {name: _union(each[name] for each in befores) for name in names}
            case "HConcat":
                return {name: origin for each in befores for name, origin in each.items()}
            case _:
                raise ValueError(f"plan node {kind}")

    def _source(self, node: Any, names: Sequence[str]) -> Origins:
        scan = _scan_of(node)
        number = None if scan is None else self._scans.get(id(scan))
        if number is None:
            return dict.fromkeys(names)
        return {name: frozenset({(number, name)}) for name in names}

    def _make(self, expressions: Iterable[Any], before: Origins) -> Origins:
        return {each.output_name: self._expression(each.node, before) for each in expressions}

    def _expression(self, number: int, before: Origins) -> frozenset[Origin] | None:
        expression: Any = self._nodes.view_expression(number)
        kind = type(expression).__name__
        if kind == "Column":
            return before[expression.name]
        if kind not in _PARTS:
            raise ValueError(f"expression {kind}")
        parts: list[int] = []
        for name in _PARTS[kind]:
            part = getattr(expression, name)
            parts += part if isinstance(part, list | tuple) else [part]
        return _union(self._expression(part, before) for part in parts)


def _join(names: Sequence[str], sides: Sequence[Origins], suffix: str) -> Origins:
    left, right = sides
    return {
        name: left[name]
        if name in left
        else right[name if name in right else name.removesuffix(suffix)]
        for name in names
    }


def _union(parts: Iterable[frozenset[Origin] | None]) -> frozenset[Origin] | None:
    origins: frozenset[Origin] = frozenset()
    for part in parts:
        if part is None:  # the others are not looked at
            return None
        origins |= part
    return origins


def columns_of_sql(
    query: str,
    tables: Mapping[str, Schema],
    *,
    dialect: str = "spark",
    translator: PaimonTranslator = DEFAULT_TRANSLATOR,
) -> PassThrough:
    """Return the source columns of each column of a query, for `pass_through` of an asset.

    A column of which any part comes from a table that is not given, or from no table, is left out.
    What chooses rows (WHERE, ON, ORDER BY) is no lineage.

    Args:
        query: One SELECT, also with CTEs, joins and unions, over `database.table`.
        tables: `database.table` → its schema.
        dialect: Of the text, by sqlglot's name: `spark`, `duckdb` ...
        translator: Names the assets of the tables.

    Raises:
        InvalidInputError: The text is no query, or names a column that none of the tables has
            (kind `sql-lineage`).

    >>> orders = Schema.of({"id": "BIGINT", "price": "DOUBLE"})
    >>> columns_of_sql("SELECT sum(price) AS total FROM shop.orders", {"shop.orders": orders})
    {AssetKey(['shop', 'orders']): {'total': ['price']}}
    """
    schemas = {str(Identifier.parse(name)): schema for name, schema in tables.items()}
    columns_of: dict[Identifier, dict[str, list[str]]] = {}
    schema = _nested(schemas)
    try:
        parsed = sqlglot.parse_one(query, dialect=dialect)
        if not isinstance(parsed, exp.Query):
            raise _refused("it is no SELECT")
        qualified = qualify(parsed, schema=schema, dialect=dialect)
        for name in qualified.named_selects:
            root = lineage(name, qualified, schema=schema, dialect=dialect)
            for table, source in dict.fromkeys(_columns(root, schemas)):
                columns_of.setdefault(table, {}).setdefault(name, []).append(source)
    except SqlglotError as error:
        raise _refused(str(error)) from error
    return {translator.get_asset_key(table): dict(columns) for table, columns in columns_of.items()}


def _refused(reason: str) -> InvalidInputError:
    return InvalidInputError(f"The query says no lineage: {reason}.", kind="sql-lineage")


def _nested(tables: Mapping[str, Schema]) -> dict[str, object]:
    nested: dict[str, dict[str, dict[str, str]]] = {}
    for name, schema in tables.items():
        table = Identifier.parse(name)
        columns = {field.name: str(field.type.root) for field in schema.fields}
        nested.setdefault(table.database, {})[table.table] = columns
    return dict(nested)


def _columns(root: Node, tables: Mapping[str, Schema]) -> list[tuple[Identifier, str]]:
    """Return table and column of the leaves; empty if one of them is unknown."""
    columns = []
    for leaf in (node for node in root.walk() if not node.downstream):
        table = leaf.source
        if not isinstance(table, exp.Table):
            if leaf.expression.find(exp.Column) is None:
                continue  # a literal
            return []
        table_name = Identifier(table.db, table.name)
        if str(table_name) not in tables:
            return []
        columns.append((table_name, exp.to_column(leaf.name).name))
    return sorted(columns, key=str)
