import pytest

from tests.testkit.metadata_tables import KEYED, new_store


@pytest.fixture
def store(tmp_path):
    """An append table without files."""
    return new_store(tmp_path)


@pytest.fixture
def keyed(tmp_path):
    """A table with a primary key and two buckets, without files."""
    return new_store(tmp_path, KEYED)
