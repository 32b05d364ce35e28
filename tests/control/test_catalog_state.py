"""Ids, properties, views and functions of a warehouse: no tables, and dropped with it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import (
    PROPERTIES,
    CatalogState,
    NamedItems,
    NumberedDocument,
)
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import FaultyFileIO


@pytest.fixture
def catalog(warehouse):
    found = FilesystemCatalog(warehouse, LocalFileIO())
    found.create_database("db")
    return found


@pytest.fixture
def state(catalog):
    return CatalogState(catalog)


@pytest.fixture
def views(state):
    return NamedItems(state, "view")


V = Identifier("db", "v")


def test_database_has_no_id_until_it_is_requested(state):
    assert state.identity("db") is None
    found = state.own_identity("db", "me")
    assert (found.created_by, state.identity("db")) == ("me", found)
    assert state.own_identity("db", "you") == found


def test_concurrent_requests_get_one_id(state):
    with ThreadPoolExecutor(8) as pool:
        assert len({found.id for found in pool.map(state.own_identity, ["db"] * 16)}) == 1


def test_recreated_database_has_another_id(catalog, state, views):
    views.create(V, {"query": "1"})
    first = state.own_identity("db")
    catalog.drop_database("db", cascade=True)
    with pytest.raises(errors.NotFoundError, match="'db'"):
        views.all("db")
    catalog.create_database("db")
    assert views.all("db") == {}
    assert state.own_identity("db").id != first.id


def test_filesystem_catalog_shows_no_state(catalog, state, views, warehouse):
    views.create(V, {})
    state.change("db", PROPERTIES, lambda _: {"a": "b"})
    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == []


@pytest.mark.parametrize("noun", ["view", "function"])
def test_database_with_view_is_not_empty(catalog, state, noun):
    items = NamedItems(state, noun)
    items.create(V, {"query": "1"})
    with refused(errors.InvalidInputError, f"the {noun} 'v'", kind="database-not-empty"):
        catalog.drop_database("db")
    items.drop(V)
    catalog.drop_database("db")
    assert catalog.list_databases() == []


@pytest.mark.parametrize("has_id", [False, True])
def test_view_created_while_its_database_is_dropped_stays(warehouse, has_id):
    for step in count():
        path = f"{warehouse}/{step}"
        other = FilesystemCatalog(path, LocalFileIO())
        other.create_database("db", options={"a": "b"} if has_id else None)
        made = []

        def turn(number, _method, _path, other=other, step=step, made=made):
            if number == step:
                with suppress(errors.NotFoundError):  # the drop won
                    made.append(NamedItems(CatalogState(other), "view").create(V, {"query": "1"}))

        file_io = FaultyFileIO(LocalFileIO(), before=turn)
        with suppress(errors.InvalidInputError):
            FilesystemCatalog(path, file_io).drop_database("db")
        if len(file_io.calls) <= step:
            break
        for view in made:
            assert NamedItems(CatalogState(other), "view").all("db") == {"v": view}
    assert step > 3


@pytest.mark.parametrize("has_id", [False, True])
def test_creator_of_view_in_dropped_database_gets_error(warehouse, has_id):
    catalog = FilesystemCatalog(warehouse, LocalFileIO())
    for step in count():
        catalog.create_database("db", options={"a": "b"} if has_id else None)

        def turn(number, _method, _path, step=step):
            if number == step:
                with suppress(errors.InvalidInputError):
                    catalog.drop_database("db")

        file_io = FaultyFileIO(LocalFileIO(), before=turn)
        state = CatalogState(FilesystemCatalog(warehouse, file_io))
        made = None
        with suppress(errors.NotFoundError):
            made = NamedItems(state, "view").create(V, {"query": "1"})
        if made is None:
            assert catalog.list_databases() == []
            continue
        assert NamedItems(CatalogState(catalog), "view").all("db") == {"v": made}
        catalog.drop_database("db", cascade=True)
        if len(file_io.calls) <= step:
            break
    assert step > 3


def test_damage_of_id_names_file(state, warehouse):
    (LocalFileIO()).write_bytes(f"{warehouse}/db.db/.database.json", b"{}")
    with pytest.raises(errors.FormatError, match=r"\.database\.json"):
        state.identity("db")


def test_item_is_created_changed_and_dropped(views):
    made = views.create(V, {"query": "1"}, by="me")
    assert views.get(V) == made
    assert made["createdBy"] == "me"
    changed = views.alter(V, lambda members: {**members, "query": "2"}, by="you")
    assert (changed["query"], changed["id"], changed["updatedBy"]) == ("2", made["id"], "you")
    assert views.all("db") == {"v": changed}
    views.drop(V)
    with pytest.raises(errors.NotFoundError) as missing:
        views.get(V)
    assert (missing.value.kind, missing.value.details) == ("view-not-found", {"view": "v"})


@pytest.mark.way_out("document-conflict")
def test_change_gives_up_after_lost_races(warehouse, views):
    """Before each publish another writer changes the same document."""
    views.create(V, {"query": "1"})
    numbers = count()

    def rival(_, method, path):
        if method == "publish":
            views.alter(V, lambda members: {**members, "query": str(next(numbers))})

    file_io = FaultyFileIO(LocalFileIO(), before=rival)
    late = NamedItems(CatalogState(FilesystemCatalog(warehouse, file_io)), "view")
    with refused(errors.CommitConflictError, kind="document-conflict"):
        late.alter(V, lambda members: {**members, "comment": "c"})
    views.alter(V, lambda members: {**members, "comment": "c"})
    assert views.get(V)["comment"] == "c"


def test_names_are_taken_once(views):
    views.create(V, {})
    with refused(errors.AlreadyExistsError, kind="view-exists"):
        views.create(V, {})
    for change in (views.drop, lambda name: views.alter(name, dict)):
        with pytest.raises(errors.NotFoundError):
            change(Identifier("db", "w"))


@pytest.mark.parametrize("database", ["db", "other"])
def test_rename_keeps_id(catalog, views, database):
    if database != "db":
        catalog.create_database(database)
    made = views.create(V, {"query": "1"})
    target = Identifier(database, "w")
    views.rename(V, target)
    assert views.get(target) == made
    with pytest.raises(errors.NotFoundError):
        views.get(V)
    views.create(V, {})
    with pytest.raises(errors.AlreadyExistsError):
        views.rename(V, target)
    with pytest.raises(errors.NotFoundError):
        views.rename(Identifier("db", "x"), target)


def test_interrupted_rename_is_finished_by_next(catalog, state, views):
    catalog.create_database("other")
    made = views.create(V, {})
    state.change("other", "views", lambda items: {**items, "w": made})
    views.rename(V, Identifier("other", "w"))
    assert (views.all("db"), list(views.all("other"))) == ({}, ["w"])


def test_concurrent_view_changes_lose_nothing(views):
    with ThreadPoolExecutor(8) as pool:
        names = [Identifier("db", f"v{n}") for n in range(40)]
        list(pool.map(lambda name: views.create(name, {}), names))
    assert set(views.all("db")) == {name.table for name in names}


def test_functions_and_views_coexist(state, views):
    views.create(V, {})
    NamedItems(state, "function").create(V, {})
    with refused(errors.AlreadyExistsError, kind="function-exists"):
        NamedItems(state, "function").create(V, {})


def test_tables_are_found_by_name(catalog, warehouse):
    for name in ("a", "b"):
        catalog.create_table(Identifier("db", name), Schema.of({"x": "INT"}))
    LocalFileIO().make_directory(f"{warehouse}/db.db/no-table")
    assert catalog.directory_names("db") == ["a", "b", "no-table"]
    assert list(catalog.table_names("db")) == ["a", "b"]
    assert catalog.has_table(Identifier("db", "a"))
    assert not catalog.has_table(Identifier("db", "no-table"))
    with pytest.raises(errors.NotFoundError):
        catalog.table_names("no")


@pytest.fixture
def document(tmp_path):
    return NumberedDocument(LocalFileIO(), str(tmp_path), "names")


def add_member(name):
    return lambda members: {**members, name: 1}


def test_new_state_is_empty(document):
    assert document.read() == {}


def test_change_is_read_back_and_old_files_expire(document, tmp_path):
    for number in range(30):
        document.change(add_member(f"n{number}"))
    assert document.read() == {f"n{number}": 1 for number in range(30)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"names-{number}.json" for number in range(23, 31)
    )


def test_empty_change_publishes_nothing(document, tmp_path):
    document.change(add_member("a"))
    document.change(add_member("a"))
    assert [path.name for path in tmp_path.iterdir()] == ["names-1.json"]


def test_concurrent_changes_lose_nothing(document):
    def add(name):
        while name not in document.read():  # a slow writer looks, as the error asks for
            with suppress(errors.CommitUnknownError):
                document.change(add_member(name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, map(str, range(400))))
    assert set(document.read()) == set(map(str, range(400)))


def test_slow_writer_publishes_no_old_state(document, tmp_path):
    document.change(add_member("a"))
    slow = []

    def late(members):
        if not slow:
            slow.append(dict(members))
            for number in range(20):
                document.change(add_member(f"n{number}"))
        return {**members, "late": 1}

    document.change(late)
    assert slow == [{"a": 1}]
    assert set(document.read()) == {"a", "late", *(f"n{number}" for number in range(20))}
    numbers = sorted(int(path.stem.partition("-")[2]) for path in tmp_path.iterdir())
    assert numbers == list(range(15, 23))


def test_change_survives_late_writer_of_its_number(document, tmp_path):
    """Between listing and reading: ten more changes, and a late one under the deleted number."""
    document.change(add_member("a"))
    own = tmp_path / "names-2.json"

    def act(_number, method, path):
        if method == "read_bytes" and path == str(own) and not turns:
            turns.append(path)
            for number in range(10):
                document.change(add_member(f"n{number}"))
            own.write_text('{"changes": ["late"], "members": {"a": 1, "late": 1}}')

    turns, calls = [], []

    def once(members):
        calls.append(members)
        return {**members, "mine": 1}

    file_io = FaultyFileIO(LocalFileIO(), before=act)
    NumberedDocument(file_io, str(tmp_path), "names").change(once)
    assert (len(turns), len(calls)) == (1, 1)
    assert set(document.read()) == {"a", "mine", *(f"n{number}" for number in range(10))}


def _beside_a_late_writer(document, tmp_path):
    """Return the document as a reader sees it that stops once between listing and reading."""
    document.change(add_member("a"))
    first = tmp_path / "names-1.json"
    stops = []

    def act(_number, method, path):
        if method == "read_bytes" and path == str(first) and not stops:
            stops.append(path)
            for number in range(10):
                document.change(add_member(f"n{number}"))
            first.write_text('{"changes": ["late"], "members": {"late": 1}}')

    return NumberedDocument(FaultyFileIO(LocalFileIO(), before=act), str(tmp_path), "names")


CHANGED = {"a", *(f"n{number}" for number in range(10))}


def test_reader_ignores_late_writer(document, tmp_path):
    assert set(_beside_a_late_writer(document, tmp_path).read()) == CHANGED


def test_late_writer_does_not_report_that_nothing_changes(document, tmp_path):
    assert set(_beside_a_late_writer(document, tmp_path).change(add_member("late"))) == CHANGED | {
        "late"
    }
    assert set(document.read()) == CHANGED | {"late"}


def test_change_is_not_refused_because_of_late_writer(document, tmp_path):
    def once(members):
        if "late" in members:
            raise errors.AlreadyExistsError("late")
        return {**members, "once": 1}

    assert set(_beside_a_late_writer(document, tmp_path).change(once)) == CHANGED | {"once"}


def test_error_in_change_aborts_it(document, tmp_path):
    def refuse(members):
        raise errors.InvalidInputError("no")

    with pytest.raises(errors.InvalidInputError):
        document.change(refuse)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [b"{", b"[]", b"\xff"])
def test_damage_names_file(document, tmp_path, damage):
    (tmp_path / "names-1.json").write_bytes(damage)
    with pytest.raises(errors.FormatError, match=r"names-1\.json"):
        document.read()
