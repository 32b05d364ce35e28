"""What `docs/supported.md` says is refused of catalogs that keep more than names, provoked."""

from pathlib import Path

from paimon_assets import Schema, TableCatalog
from paimon_assets.engine.spec.types.data_types import integer
from tests.testkit.catalog_kinds import CATALOG_KINDS
from tests.testkit.served_catalog import ServedCatalog


def _served(at: Path) -> TableCatalog:
    served = TableCatalog(ServedCatalog(str(at)))
    served.create_database("db")
    return served


def rename_served_tag(at: Path) -> None:
    """Rename a tag of a table whose catalog keeps its versions."""
    table = _served(at).create_table("db.t", Schema.of({"k": integer()}))
    table.tags.rename("one", "two")


def ask_for_views(at: Path) -> None:
    _ = _served(at).views


def ask_for_properties(at: Path) -> None:
    _served(at).get_database("db")


def open_view_as_table(at: Path) -> None:
    catalog = CATALOG_KINDS["rest"](at / "rest")
    catalog.create_database("db")
    catalog.views.create("db.v", "SELECT 1", {"a": "INT"})
    catalog.get_table("db.v")
