"""Rows that are stored already and are written again: nothing is done to them a second time."""

from collections.abc import Mapping
from dataclasses import replace

from paimon_assets.engine.spec.schema.schema import TableSchema


def rewriting_schema(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    """Return the schema to write stored rows by: a null stays one, whatever the column's default.

    Args:
        schema: The table's.
        options: Dynamic options of the write.
    """
    fields = tuple(replace(field, default_value=None) for field in schema.fields)
    return replace(schema, fields=fields).with_dynamic_options(options)
