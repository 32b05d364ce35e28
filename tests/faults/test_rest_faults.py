"""Between our client and our server requests and answers are lost; commits are made once."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.rest_catalog import RestCatalog
from paimon_assets.engine.errors import CommitUnknownError, PaimonError, StorageError
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.http_servers import Fate, LossyProxy
from tests.testkit.rest_server import serving

SCHEMA = Schema.of({"id": "INT"}, options={"commit.min-retry-wait": "1 ms"})
T = Identifier("db", "t")
FAULTS = [fate for fate in Fate if fate is not Fate.PASSED]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    warehouse = tmp_path_factory.mktemp("w")
    roots = (f"{warehouse}_outside",)
    with serving(ServeSettings(warehouse=str(warehouse), insecure=True, roots=roots)) as client:
        yield client, str(warehouse)


@pytest.fixture
def proxy(server):
    with LossyProxy(server[0].port).running() as running:
        yield running


@pytest.fixture
def catalog(proxy):
    """A catalog whose requests go through the proxy, with a table `db.t`."""
    made = TableCatalog(RestCatalog({"uri": proxy.uri, "token": "any"}))
    made.create_database("db")
    made.create_table("db.t", SCHEMA)
    yield made
    proxy.fates.clear()
    made.drop_database("db", cascade=True)


def write(catalog, value, **settings):
    builder = catalog.get_table("db.t").new_write_builder()
    for name, setting in settings.items():
        builder = getattr(builder, name)(setting)
    return builder.write(pa.table({"id": pa.array([value], pa.int32())})).snapshot


def rows(server):
    """Return the rows of the table, read by its directory."""
    read = open_catalog(server[1]).get_table("db.t").new_read_builder().to_arrow()
    return sorted(read.column("id").to_pylist())


def files(server):
    """Return how many manifest lists there are."""
    return len(list(Path(server[1], "db.db", "t", "manifest").glob("manifest-list-*")))


@pytest.mark.parametrize("fate", FAULTS)
def test_commit_is_made_once_despite_lost_answer(fate, catalog, proxy, server):
    write(catalog, 0)
    proxy.suffix = "/commit"
    proxy.fates.append(fate)
    assert write(catalog, 1).id == 2
    assert rows(server) == [0, 1]
    assert files(server) == 4
    assert write(catalog, 2).id == 3


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_unnoticed_commit_deletes_nothing_and_is_found(done, catalog, proxy, server):
    proxy.suffix = "/commit"
    proxy.fates.extend([Fate.FAILED_AFTER if done else Fate.LOST_BEFORE] + [Fate.LOST_BEFORE] * 3)
    if done:
        assert write(catalog, 1, with_commit_user="u", with_commit_identifier=1).id == 1
    else:
        with pytest.raises(CommitUnknownError):
            write(catalog, 1, with_commit_user="u", with_commit_identifier=1)
        assert files(server) == 2
    proxy.fates.clear()
    assert write(catalog, 1, with_commit_user="u", with_commit_identifier=1).id == 1
    assert rows(server) == [1]


@pytest.mark.parametrize("fate", FAULTS)
def test_change_of_schema_is_made_once(fate, catalog, proxy, server):
    proxy.suffix = "/t"
    table = catalog.get_table("db.t")
    proxy.fates.append(fate)
    with suppress(CommitUnknownError):
        catalog._catalog.alter_table(T, [add_column("c", "INT")])
    proxy.fates.clear()
    newest = catalog.get_table("db.t").schema
    was_passed_on = fate is not Fate.LOST_BEFORE
    assert (newest.id, newest.field_names) == ((1, ("id", "c")) if was_passed_on else (0, ("id",)))
    assert table.schema.id == 0


ADDED = [add_column("c", "INT")]
MADE = Identifier("db", "made")
ACKNOWLEDGED = {
    "alter": (T, lambda catalog: catalog.alter_table(T, ADDED)),
    "create": (MADE, lambda catalog: catalog.create_table(MADE, SCHEMA)),
}


@pytest.mark.parametrize("action", ACKNOWLEDGED)
def test_published_commit_is_not_reported_as_failed(action, catalog, proxy):
    """The server acknowledged it; then the look at the new schema fails."""
    name, call = ACKNOWLEDGED[action]
    proxy.fates.extend([Fate.PASSED, Fate.FAILED_AFTER])
    with pytest.raises(CommitUnknownError, match="Look at it") as unknown:
        call(catalog._catalog)
    assert unknown.value.details["table"] == str(name)
    assert isinstance(unknown.value.__cause__, StorageError)
    assert catalog.get_table(name).schema.id == (1 if action == "alter" else 0)


@pytest.mark.parametrize("action", ["alter", "create"])
def test_later_request_does_not_hide_done_operation(action, catalog, proxy):
    """Each request of a call fails in its turn; an error that is sure means it was not done."""
    kinds, was_met, number = [], True, 0
    while was_met:
        name, table, number = f"x{number}", catalog.get_table("db.t"), number + 1
        proxy.fates.extend([*[Fate.PASSED] * (number - 1), Fate.FAILED_AFTER])
        surely_not = False
        try:
            if action == "alter":
                table.alter([add_column(name, "INT")])
            else:
                catalog.create_table(f"db.{name}", SCHEMA)
        except PaimonError as error:
            kinds.append(error.kind)
            surely_not = not isinstance(error, CommitUnknownError)
        was_met = not proxy.fates
        proxy.fates.clear()
        if action == "alter":
            made = name in catalog.get_table("db.t").schema.field_names
        else:
            made = name in catalog.list_tables("db")
        assert made is not surely_not
    assert "done-but-unread" in kinds


@pytest.mark.parametrize("fate", FAULTS)
def test_table_is_dropped_once(fate, catalog, proxy, server):
    proxy.suffix = "/t"
    proxy.fates.append(fate)
    try:
        catalog.drop_table("db.t")
    except CommitUnknownError:
        assert fate is Fate.FAILED_AFTER
    assert catalog.list_tables("db") == []


def test_reads_continue_after_lost_answers(catalog, proxy, server):
    write(catalog, 1)
    proxy.fates.extend(
        [Fate.LOST_BEFORE, Fate.PASSED, Fate.BUSY, Fate.CUT, Fate.UNAVAILABLE_BEFORE]
    )
    read = catalog.get_table("db.t").new_read_builder().to_arrow()
    assert read.column("id").to_pylist() == [1]
