import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.testkit.row_changing import FIRST, SECOND, TABLES, create, write


@pytest.fixture
def catalog(tmp_path):
    opened = open_catalog(str(tmp_path / "warehouse"))
    opened.create_database("db")
    return opened


@pytest.fixture(params=TABLES)
def row_table(request, catalog):
    """A table of each kind, with the rows of two commits."""
    made = create(catalog, request.param)
    write(made, *FIRST)
    write(made, *SECOND)
    return made
