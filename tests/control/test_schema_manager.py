import pytest

from paimon_assets.engine.control.schema_manager import SchemaManager
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema import Schema
from tests.testkit.faulty_fileio import FaultyFileIO

SCHEMA = Schema.of({"a": "INT", "b": "STRING"}, primary_keys=["a"], options={"bucket": "1"})


@pytest.fixture
def paths(tmp_path):
    return TablePaths(table=str(tmp_path))


def _copy(paths: TablePaths, schema_id: int) -> None:
    data = LocalFileIO().read_bytes(paths.schema(0)).replace(b'"id":0', b'"id":%d' % schema_id, 1)
    LocalFileIO().write_bytes(paths.schema(schema_id), data)


def test_a_created_schema_is_the_latest(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    assert manager.latest() is None
    created = manager.create(SCHEMA, time_millis=7)
    assert created.time_millis == 7
    assert SchemaManager(LocalFileIO(), paths).latest() == created


def test_a_table_is_created_once(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    manager.create(SCHEMA, time_millis=7)
    with pytest.raises(AlreadyExistsError):
        manager.create(SCHEMA, time_millis=8)


def test_a_schema_that_breaks_a_rule_is_not_written(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    with pytest.raises(InvalidInputError):
        manager.create(Schema.of({"a": "INT"}, partition_keys=["x"]), time_millis=7)
    assert manager.list_ids() == []


def test_ids_are_ordered_as_numbers(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    manager.create(SCHEMA, time_millis=7)
    for number in range(1, 12):
        _copy(paths, number)
    assert manager.list_ids() == list(range(12))
    assert manager.latest() == manager.schema(11)


def test_the_latest_id_is_found_from_a_known_one_without_listing(paths):
    SchemaManager(LocalFileIO(), paths).create(SCHEMA, time_millis=7)
    _copy(paths, 1)
    file_io = FaultyFileIO(LocalFileIO())
    assert SchemaManager(file_io, paths).latest_id(0) == 1
    assert file_io.count("list_directory") == 0


def test_a_dropped_table_is_noticed(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    manager.create(SCHEMA, time_millis=7)
    LocalFileIO().delete_directory(paths.table)
    with pytest.raises(NotFoundError, match="dropped"):
        manager.latest_id(0)


def test_a_schema_is_read_once(paths):
    SchemaManager(LocalFileIO(), paths).create(SCHEMA, time_millis=7)
    file_io = FaultyFileIO(LocalFileIO())
    manager = SchemaManager(file_io, paths)
    assert manager.schema(0) is manager.schema(0)
    assert file_io.count("read_bytes") == 1
