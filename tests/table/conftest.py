import pytest

from tests.testkit.row_changing import FIRST, SECOND, TABLES, create, write
from tests.testkit.tables import new_catalog_in


@pytest.fixture
def catalog(tmp_path):
    return new_catalog_in(tmp_path / "warehouse")


@pytest.fixture(params=TABLES)
def row_table(request, catalog):
    """A table of each kind, with the rows of two commits."""
    made = create(catalog, request.param)
    write(made, *FIRST)
    write(made, *SECOND)
    return made
