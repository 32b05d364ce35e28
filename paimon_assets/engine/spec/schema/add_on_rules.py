"""The rules of add-ons for the schemas of tables that have their option."""

from collections.abc import Iterator
from typing import Protocol, cast

from paimon_assets.engine.add_ons import add_ons_of
from paimon_assets.engine.spec.schema.schema import TableSchema


class SchemaRules(Protocol):
    """Module `rules` of an add-on."""

    def first_schema(self, first: TableSchema) -> TableSchema:
        """Return the schema of a new table as the add-on needs it."""

    def check_schema(self, schema: TableSchema, old: TableSchema | None) -> None:
        """Refuse a schema, or a change from `old`, that the add-on cannot follow."""

    def check_writable(self, table: str, schema: TableSchema) -> None:
        """Refuse commits that the add-on cannot follow."""

    def refuses_kept_deletes(self, schema: TableSchema) -> str | None:
        """Return why full compactions may keep no deletes; None if they may."""


def schema_rules(schema: TableSchema) -> Iterator[SchemaRules]:
    """Yield the rules of the add-ons of a table."""
    for each in add_ons_of(schema.options):
        yield cast("SchemaRules", each.load("rules"))
