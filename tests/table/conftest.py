import pytest

from paimon_assets.engine.table.api import open_catalog


@pytest.fixture
def catalog(tmp_path):
    opened = open_catalog(str(tmp_path / "warehouse"))
    opened.create_database("db")
    return opened
