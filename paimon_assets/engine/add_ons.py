"""The add-ons: packages on top of the core, which never imports them.

This is the only module of the core that names them. The engine loads one where the options of a
table ask for it; the hooks of add-ons are in `spec.schema.add_on_rules` (schemas) and
`control.listeners` (commits, and all later steps), and below (commands, CALL, tasks).
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct


class AddOn(Struct, frozen=True):
    """An add-on, by the option that tables with it have."""

    option: str
    package: str

    def load(self, module: str) -> Any:
        """Import one of the add-on's modules: `options`, `rules` or `listener`."""
        return import_module(f"{self.package}.{module}")


class JobReport(Struct, frozen=True):
    """The result of an operation as a job of an orchestrator shows it."""

    failure: str = ""
    """Why the job fails; empty if it does not."""
    markdown: str = ""


ADD_ONS = (AddOn("metadata.iceberg.storage", "paimon_assets.iceberg"),)
SERVER = "paimon_assets.server.serve"
"""The module that the command `serve` loads."""
ERASE_COMMAND = "paimon_assets.erasure.command"
REVIEW_COMMANDS = "paimon_assets.review.command"
SQL_COMMAND = "paimon_assets.sql.command"
OPERATIONS = ("paimon_assets.erasure.operations", "paimon_assets.review.operations")
"""Modules of operations beside `sql.operations`, with the mappings `SHOWN` and `REPORTS`."""
TASKS = {
    "write-columns": ("paimon_assets.columns.rows", "write_columns"),
    "diff": ("paimon_assets.review.rows", "diff_rows"),
    "erase": ("paimon_assets.erasure.rows", "erase_rows"),
}
"""Task → module and function that run it."""


def add_ons_of(options: Mapping[str, str]) -> tuple[AddOn, ...]:
    """Return the add-ons that the options of a table name."""
    return tuple(each for each in ADD_ONS if each.option in options)


def load_column_writes() -> Any:
    """Import the module of the add-on for columns that has the `ColumnWriteBuilder`."""
    return import_module("paimon_assets.columns.write")


def load_sql(module: str) -> Any:
    """Import a module of the add-on for SQL: `parse`, `run`, `query` or `view_input`."""
    return import_module(f"paimon_assets.sql.{module}")
