from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import CATALOGS, open_catalog
from tests.testkit.errors import refused
from tests.testkit.faults.writers import fork_server
from tests.testkit.faulty_fileio import FaultyFileIO

_FORKED = fork_server()
SCHEMA = Schema.of({"a": "INT"})
T = Identifier("db", "t")


@pytest.fixture(params=[kind for kind in CATALOGS if kind != "rest"])
def kind(request):
    return request.param


@pytest.fixture(params=["local", "memory"])
def catalog(request, kind, tmp_path):
    warehouse = str(tmp_path / "w") if request.param == "local" else f"memory:/{tmp_path}/w"
    catalog = CATALOGS[kind](warehouse, {})
    catalog.create_database("db")
    return catalog


@pytest.mark.parametrize(
    "name",
    ["", " ", "a/b", "a\\b", "..", "a..b", ".hidden", "/etc", "a\nb", "a\x00", " a", "a ", "\x7f"],
)
def test_name_leaving_warehouse_is_refused(name):
    with pytest.raises(errors.InvalidInputError, match="name"):
        Identifier("db", name)
    with pytest.raises(errors.InvalidInputError, match="name"):
        Identifier(name, "t")


@given(st.text(), st.text())
def test_every_accepted_name_is_one_directory_below_its_database(database, table):
    try:
        identifier = Identifier(database, table)
    except errors.InvalidInputError:
        return
    path = FilesystemCatalog("/w", LocalFileIO()).get_table_location(identifier)
    assert path.split("/") == ["", "w", f"{database}.db", table]
    assert Identifier.parse(str(identifier)) == identifier


@pytest.mark.parametrize("name", [["x", "orders"], ("x", "orders"), None, 7])
def test_invalid_text_names_no_table(name):
    with pytest.raises(errors.InvalidInputError, match=r"names no table; write database\.table"):
        Identifier.parse(name)


def test_text_without_dot_names_no_table():
    with pytest.raises(errors.InvalidInputError, match=r"database\.table"):
        Identifier.parse("flights")


def test_databases_are_created_listed_and_dropped(catalog):
    catalog.create_database("other")
    assert catalog.list_databases() == ["db", "other"]
    with pytest.raises(errors.AlreadyExistsError, match="'other'"):
        catalog.create_database("other")
    catalog.create_database("other", ignore_if_exists=True)
    catalog.drop_database("other")
    assert catalog.list_databases() == ["db"]


def test_database_with_tables_is_dropped_only_with_cascade(catalog):
    catalog.create_table(T, SCHEMA)
    with pytest.raises(errors.InvalidInputError, match="cascade"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


def test_only_empty_folder_is_dropped_without_cascade(catalog):
    file_io = catalog.file_io
    foreign = f"{catalog.database_path('db')}/landing/a.csv"
    file_io.write_bytes(foreign, b"a\n1\n")
    with refused(
        errors.InvalidInputError, "'landing', which is no table", kind="database-not-empty"
    ):
        catalog.drop_database("db")
    assert file_io.read_bytes(foreign) == b"a\n1\n"
    catalog.drop_database("db", cascade=True)
    assert (catalog.list_databases(), file_io.exists(foreign)) == ([], False)


@pytest.mark.parametrize("content", ["properties", "a killed drop", "a killed publish"])
def test_catalogs_own_files_do_not_keep_database(catalog, content):
    path = catalog.database_path("db")
    if content == "properties":
        catalog.alter_database("db", updates={"a": "b"})
    elif content == "a killed drop":
        catalog.file_io.write_bytes(f"{path}/.t.{'0f' * 16}.dropped/schema/schema-0", b"{}")
    else:
        catalog.file_io.write_bytes(f"{path}/..database.json.{'0f' * 16}.tmp", b"{")
    catalog.drop_database("db")
    assert catalog.list_databases() == []


@pytest.mark.parametrize("has_id", [False, True])
@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_table_created_while_its_database_is_dropped_stays(tmp_path, scheme, has_id):
    for step in count():
        warehouse = (
            f"memory:/{tmp_path}/{step}" if scheme == "memory" else str(tmp_path / f"{step}")
        )
        other = open_catalog(warehouse)
        other.create_database("db", options={"a": "b"} if has_id else None)
        made = []
        turn = _create_and_commit(other, step, made)
        file_io = FaultyFileIO(file_io_for(warehouse), before=turn)
        is_refused = True
        with suppress(errors.InvalidInputError):
            FilesystemCatalog(warehouse, file_io).drop_database("db")
            is_refused = False
        if is_refused and has_id:
            assert other.get_database("db").options == {"a": "b"}
        if len(file_io.calls) <= step:
            break
        for table in made:
            assert table.new_read_builder().to_arrow().to_pylist() == [{"a": 1}]
            assert other.list_tables("db") == ["t"]
    assert step > 3
    assert other.list_databases() == []


def _create_and_commit(catalog, step, made):
    """Return a hook that creates a table and commits to it before a call's number."""

    def turn(number, _method, _path):
        if number == step:
            with suppress(errors.NotFoundError):  # the drop won
                table = catalog.create_table("db.t", SCHEMA)
                table.new_write_builder().write(pa.table({"a": pa.array([1], pa.int32())}))
                made.append(table)

    return turn


def test_missing_database_is_named(catalog):
    nowhere = Identifier("nowhere", "t")
    for call, *arguments in (
        (catalog.list_tables, "nowhere"),
        (catalog.drop_database, "nowhere"),
        (catalog.create_table, nowhere, SCHEMA),
        (catalog.load_schema, nowhere),
    ):
        with refused(errors.NotFoundError, kind="database-not-found"):
            call(*arguments)


def test_killed_drop_leaves_only_hidden_directory(tmp_path):
    catalog = FilesystemCatalog(str(tmp_path), FaultyFileIO(LocalFileIO(), fail_on=".t.*.dropped"))
    catalog.create_database("db")
    catalog.create_table(T, Schema.of({"a": "INT"}))
    with pytest.raises(errors.StorageError):
        catalog.drop_table(T)
    assert catalog.list_tables("db") == []
    assert len(list(tmp_path.glob("db.db/.t.*.dropped"))) == 1
    catalog.create_table(T, Schema.of({"b": "INT"}))


def test_tables_are_created_listed_loaded_and_dropped(catalog):
    created = catalog.create_table(T, SCHEMA)
    assert catalog.list_tables("db") == ["t"]
    assert catalog.load_schema(T) == created
    catalog.drop_table(T)
    assert catalog.list_tables("db") == []
    with pytest.raises(errors.NotFoundError, match=r"db\.t"):
        catalog.load_schema(T)
    with pytest.raises(errors.NotFoundError, match=r"db\.t"):
        catalog.drop_table(T)
    catalog.drop_table(T, ignore_if_missing=True)


def test_directory_without_schema_is_no_table(catalog):
    location = catalog.get_table_location(T)
    file_io = file_io_for(location)
    file_io.write_bytes(f"{location}/schema/other-0", b"{}")
    file_io.write_bytes(f"{location}/schema/schema-x", b"{}")
    assert catalog.list_tables("db") == []
    with pytest.raises(errors.InvalidInputError, match="holds 'schema/other-0'"):
        catalog.create_table(T, SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [
        Schema.of({"half\udce9": "INT"}),
        Schema.of({"a": "ROW<`half\udce9` INT>"}),
        Schema.of({"a": "INT"}, comment="half\udce9"),
        Schema.of({"a": "INT"}, options={"some.note": "half\udce9"}),
    ],
)
def test_lone_surrogate_is_refused(catalog, schema):
    with refused(errors.InvalidInputError, r"U\+DCE9.*half.udce9", kind="half-character"):
        catalog.create_table(T, schema)
    assert catalog.list_tables("db") == []
    catalog.create_table(T, SCHEMA)
    with pytest.raises(errors.InvalidInputError, match=r"U\+DCE9"):
        catalog.alter_table(T, [add_column("half\udce9", "INT")])
    with pytest.raises(errors.InvalidInputError, match=r"U\+DCE9"):
        catalog.alter_database("db", updates={"a": "half\udce9"})


def test_existing_table_is_kept(catalog):
    created = catalog.create_table(T, SCHEMA)
    other = Schema.of({"b": "INT"})
    with pytest.raises(errors.AlreadyExistsError, match=r"db\.t"):
        catalog.create_table(T, other)
    assert catalog.create_table(T, other, ignore_if_exists=True) == created


def test_bad_schema_writes_nothing(catalog):
    with pytest.raises(errors.InvalidInputError):
        catalog.create_table(T, Schema.of({"a": "INT"}, primary_keys=["nowhere"]))
    location = catalog.get_table_location(T)
    assert not file_io_for(location).exists(location)


def test_rename_moves_database_and_never_overwrites_table(catalog):
    catalog.create_database("other")
    created = catalog.create_table(T, SCHEMA)
    moved = Identifier("other", "moved")
    catalog.create_table(Identifier("db", "taken"), SCHEMA)
    with pytest.raises(errors.AlreadyExistsError, match=r"db\.taken"):
        catalog.rename_table(T, Identifier("db", "taken"))
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        catalog.rename_table(T, Identifier("nowhere", "t"))
    catalog.rename_table(T, moved)
    assert catalog.load_schema(moved) == created
    with pytest.raises(errors.NotFoundError, match=r"db\.t'"):
        catalog.rename_table(T, moved)


def _create(kind: str, warehouse: str, index: int, barrier, answers) -> None:
    catalog = CATALOGS[kind](warehouse, {})
    barrier.wait()
    try:
        catalog.create_table(T, Schema.of({f"column{index}": "INT"}))
        answers.put((index, True))
    except errors.AlreadyExistsError:
        answers.put((index, False))


def test_one_of_two_processes_creates_table(kind, tmp_path):
    warehouse = str(tmp_path)
    catalog = CATALOGS[kind](warehouse, {})
    catalog.create_database("db")
    barrier, answers = _FORKED.Barrier(2), _FORKED.Queue()
    processes = [
        _FORKED.Process(target=_create, args=(kind, warehouse, index, barrier, answers))
        for index in range(2)
    ]
    for process in processes:
        process.start()
    created = dict(answers.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    (winner,) = [index for index, was_created in created.items() if was_created]
    assert catalog.load_schema(T).field_names == (f"column{winner}",)
