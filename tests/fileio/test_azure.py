"""Tables on Azurite, over HTTP; `test_file_io` has the single calls."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.testkit.azure_server import AZURITE, CONTAINER, azure_server
from tests.testkit.metadata_tables import ORPHAN

pytestmark = pytest.mark.skipif(AZURITE is None, reason="no azurite-blob on the path")


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with azure_server() as found:
        yield found


@pytest.fixture
def root() -> str:
    return f"az://{CONTAINER}/{uuid4().hex}"


def test_one_of_many_publishers_of_name_wins(options, root):
    path = f"{root}/published"

    def publish(number):
        return file_io_for(root, options).publish(path, b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(publish, range(16)))
    assert sum(won) == 1
    assert file_io_for(root, options).read_bytes(path) == b"%d" % won.index(True)


def test_file_is_uploaded_in_parts_unless_aborted(options, root):
    file_io, data = file_io_for(root, options), random.Random(1).randbytes(20_000_000)  # noqa: S311
    with file_io.open_output(f"{root}/parts") as stream:
        for start in range(0, len(data), 999_999):
            stream.write(data[start : start + 999_999])
    assert file_io.open_input(f"{root}/parts", len(data)).read() == data
    stream = file_io.open_output(f"{root}/aborted")
    stream.write(data)
    stream.discard()
    assert [each.name for each in file_io.list_directory(root)] == ["parts"]


def test_many_files_are_deleted_though_some_are_missing(options, root):
    file_io = file_io_for(root, options)
    with file_io.at_once():
        for number in range(0, 300, 2):
            file_io.write_bytes(f"{root}/many/{number}", b"")
    file_io.delete_files([f"{root}/many/{number}" for number in range(0, 280, 2)])
    assert len(file_io.list_directory(f"{root}/many")) == 10
    file_io.delete_files([f"{root}/many/{number}" for number in range(270, 296)])
    assert [each.name for each in file_io.list_directory(f"{root}/many")] == ["296", "298"]


def test_container_that_does_not_exist_is_named(options):
    path = "az://no-such/a"
    file_io = file_io_for(path, options)
    for call in (
        lambda: file_io.write_bytes(path, b""),
        lambda: file_io.publish(path, b""),
        lambda: file_io.delete_file(path),
        lambda: file_io.delete_files([path, f"{path}b"]),
    ):
        with pytest.raises(StorageError, match="no-such") as refused:
            call()
        assert refused.value.kind == "bucket-not-found"


def test_table_life_from_first_commit_to_drop(options, root):
    catalog = open_catalog(root, options)
    catalog.create_database("d")
    schema = Schema.of(
        {"id": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
    )
    table = catalog.create_table("d.t", schema)
    for number in range(6):
        table.upsert(pa.table({"id": [number, number + 1], "v": ["old", "new"]}))
    table.compact()
    expected = [{"id": number, "v": "old" if number < 6 else "new"} for number in range(7)]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    table.tags.create("kept")
    file_io_for(root, options).write_bytes(f"{table.path}/bucket-0/{ORPHAN}", b"")
    upkeep = replace(table.maintenance(), orphans_older_than_ms=0, expire_before=5)
    assert upkeep.run(MaintenanceTask.EXPIRE_SNAPSHOTS).count == 4
    assert upkeep.run(MaintenanceTask.CLEAN_ORPHANS).count == 1
    assert open_table(table.path, options).to_arrow().num_rows == 7
    catalog.rename_table("d.t", "d.u")
    assert catalog.get_table("d.u").to_arrow().num_rows == 7
    catalog.drop_table("d.u")
    catalog.drop_database("d")
    assert catalog.list_databases() == []
