"""Ids, properties, views and functions of a warehouse: nobody's tables, and gone with them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import PROPERTIES, CatalogState
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.catalog.named_items import NamedItems
from paimon_assets.engine.errors import AlreadyExistsError, FormatError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema


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


def test_a_database_has_no_id_until_somebody_asks(state):
    assert state.identity("db") is None
    found = state.own_identity("db", "me")
    assert (found.created_by, state.identity("db")) == ("me", found)
    assert state.own_identity("db", "you") == found


def test_all_who_ask_at_once_get_one_id(state):
    with ThreadPoolExecutor(8) as pool:
        assert len({found.id for found in pool.map(state.own_identity, ["db"] * 16)}) == 1


def test_what_is_made_again_is_another(catalog, state, views):
    views.create(V, {"query": "1"})
    first = state.own_identity("db")
    catalog.drop_database("db")
    with pytest.raises(NotFoundError, match="'db'"):
        views.all("db")
    catalog.create_database("db")
    assert views.all("db") == {}
    assert state.own_identity("db").id != first.id


def test_the_catalog_of_the_file_system_sees_nothing_of_it(catalog, state, views, warehouse):
    views.create(V, {})
    state.change("db", PROPERTIES, lambda _: {"a": "b"})
    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == []
    catalog.drop_database("db")  # it is empty


def test_damage_of_an_id_names_the_file(state, warehouse):
    (LocalFileIO()).write_bytes(f"{warehouse}/db.db/.database.json", b"{}")
    with pytest.raises(FormatError, match=r"\.database\.json"):
        state.identity("db")


def test_an_item_is_made_changed_and_dropped(views):
    made = views.create(V, {"query": "1"}, by="me")
    assert views.get(V) == made
    assert made["createdBy"] == "me"
    changed = views.alter(V, lambda members: {**members, "query": "2"}, by="you")
    assert (changed["query"], changed["id"], changed["updatedBy"]) == ("2", made["id"], "you")
    assert views.all("db") == {"v": changed}
    views.drop(V)
    with pytest.raises(NotFoundError) as missing:
        views.get(V)
    assert (missing.value.kind, missing.value.details) == ("view-not-found", {"view": "v"})


def test_names_are_taken_once(views):
    views.create(V, {})
    with pytest.raises(AlreadyExistsError) as taken:
        views.create(V, {})
    assert taken.value.kind == "view-exists"
    for change in (views.drop, lambda name: views.alter(name, dict)):
        with pytest.raises(NotFoundError):
            change(Identifier("db", "w"))


@pytest.mark.parametrize("database", ["db", "other"])
def test_a_rename_keeps_the_id(catalog, views, database):
    if database != "db":
        catalog.create_database(database)
    made = views.create(V, {"query": "1"})
    target = Identifier(database, "w")
    views.rename(V, target)
    assert views.get(target) == made
    with pytest.raises(NotFoundError):
        views.get(V)
    views.create(V, {})
    with pytest.raises(AlreadyExistsError):
        views.rename(V, target)
    with pytest.raises(NotFoundError):
        views.rename(Identifier("db", "x"), target)


def test_a_rename_that_died_half_way_is_ended_by_another(catalog, state, views):
    catalog.create_database("other")
    made = views.create(V, {})
    state.change("other", "views", lambda items: {**items, "w": made})
    views.rename(V, Identifier("other", "w"))
    assert (views.all("db"), list(views.all("other"))) == ({}, ["w"])


def test_changes_of_many_views_at_once_lose_nothing(views):
    with ThreadPoolExecutor(8) as pool:
        names = [Identifier("db", f"v{n}") for n in range(40)]
        list(pool.map(lambda name: views.create(name, {}), names))
    assert set(views.all("db")) == {name.table for name in names}


def test_functions_are_beside_views(state, views):
    views.create(V, {})
    NamedItems(state, "function").create(V, {})
    with pytest.raises(AlreadyExistsError) as taken:
        NamedItems(state, "function").create(V, {})
    assert taken.value.kind == "function-exists"


def test_tables_are_found_one_by_one(catalog, warehouse):
    for name in ("a", "b"):
        catalog.create_table(Identifier("db", name), Schema.of({"x": "INT"}))
    LocalFileIO().make_directory(f"{warehouse}/db.db/no-table")
    assert catalog.directory_names("db") == ["a", "b", "no-table"]
    assert list(catalog.table_names("db")) == ["a", "b"]
    assert catalog.has_table(Identifier("db", "a"))
    assert not catalog.has_table(Identifier("db", "no-table"))
    with pytest.raises(NotFoundError):
        catalog.table_names("no")
