"""Column lineage of a query: columns of upstream tables that a column is made of.

Filters, orders and join conditions choose rows and make no values, so they are no lineage.
"""

from collections.abc import Mapping

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify

from paimon_assets.assets.tables.lineage import PassThrough
from paimon_assets.assets.translator import DEFAULT_TRANSLATOR, PaimonTranslator
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema


def columns_of_sql(
    query: str,
    tables: Mapping[str, Schema],
    *,
    dialect: str = "spark",
    translator: PaimonTranslator = DEFAULT_TRANSLATOR,
) -> PassThrough:
    """Return the source columns of each column of a query, for `pass_through` of an asset.

    A column is left out if any part of it is of a table that is not given, or of none.
    Conditions on rows (WHERE, ON, ORDER BY) are no lineage.

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
    schema = _nest_tables(schemas)
    try:
        parsed = sqlglot.parse_one(query, dialect=dialect)
        if not isinstance(parsed, exp.Query):
            raise _refusal("it is no SELECT")
        qualified = qualify(parsed, schema=schema, dialect=dialect)
        for name in qualified.named_selects:
            root = lineage(name, qualified, schema=schema, dialect=dialect)
            for table, source in dict.fromkeys(_columns(root, schemas)):
                columns_of.setdefault(table, {}).setdefault(name, []).append(source)
    except SqlglotError as error:
        raise _refusal(str(error)) from error
    return {translator.get_asset_key(table): dict(columns) for table, columns in columns_of.items()}


def _refusal(reason: str) -> InvalidInputError:
    return InvalidInputError(f"The query has no lineage: {reason}.", kind="sql-lineage")


def _nest_tables(tables: Mapping[str, Schema]) -> dict[str, object]:
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
