"""The catalog behind a server, as people and tools use it; the server is ours, over real HTTP."""

import pyarrow as pa
import pytest
from click.testing import CliRunner

from paimon_assets.cli.main import main
from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.server import bodies as own_bodies
from paimon_assets.server.serve import ServeSettings
from tests.testkit.errors import refused
from tests.testkit.rest_server import serving
from tests.testkit.tables import new_catalog_in, new_table, values, write

SCHEMA = Schema.of({"id": "INT", "dt": "STRING"}, partition_keys=["dt"])
T = Identifier("db", "t")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """URI of a server, and a folder that external tables may lie in."""
    warehouse, outside = tmp_path_factory.mktemp("w"), tmp_path_factory.mktemp("outside")
    settings = ServeSettings(warehouse=str(warehouse), insecure=True, roots=(str(outside),))
    with serving(settings) as client:
        yield f"http://127.0.0.1:{client.port}", outside


@pytest.fixture
def catalog(server):
    """A catalog with an empty database `db`."""
    made = open_catalog(metastore="rest", uri=server[0], token="any")  # noqa: S106
    made.create_database("db")
    yield made
    made.drop_database("db", cascade=True)


@pytest.fixture
def rest(catalog):
    return catalog._catalog


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int32()), "dt": ["a"] * len(ids)})


def test_databases_have_properties(catalog, rest):
    rest.create_database("props", options={"a": "b"})
    changed = rest.alter_database("props", updates={"c": "d"}, removals=["a", "zz"])
    assert (changed.removed, changed.updated, changed.missing) == (("a",), ("c",), ("zz",))
    assert rest.get_database("props").options["c"] == "d"
    catalog.drop_database("props")


@pytest.mark.way_out("rollback-raced")
def test_consumers_and_rollback_are_servers(catalog, rest):
    table = new_table(catalog, SCHEMA)
    for number in (1, 2):
        write(table, rows(number))
    rest.reset_consumer(T, "me", 2)
    assert rest.list_consumers(T) == {"me": 2}
    rest.reset_consumer(T, "me", None)
    assert rest.list_consumers(T) == {}
    with refused(errors.CommitConflictError, kind="rollback-raced"):
        rest.rollback_to(T, 1, from_snapshot=1)
    assert values(catalog.get_table("db.t")) == [1, 2]
    rest.rollback_to(T, 1, from_snapshot=2)
    assert values(catalog.get_table("db.t")) == [1]


def test_server_shows_creator_of_table(catalog):
    catalog.create_table("db.t", SCHEMA)
    (row,) = catalog.get_system_table("sys.tables").to_arrow().to_pylist()
    assert (row["owner"], row["created_by"]) == ("anonymous", "anonymous")
    assert row["created_at"] is not None


def register(rest, name, path):
    given = bodies.Identifier(database="db", object=name)
    body = own_bodies.RegisterTableRequest(identifier=given, path=path)
    rest._api.post(("databases", "db", "register"), body)


def test_external_table_stores_its_versions(catalog, rest, server):
    theirs = new_catalog_in(server[1], "o")
    register(rest, "ext", new_table(theirs, SCHEMA, rows(1), name="o.t").path)
    loaded = rest.load_table(Identifier("db", "ext"))
    assert loaded.uuid is not None
    assert loaded.versions is None
    write(catalog.get_table("db.ext"), rows(2))
    assert values(theirs.get_table("o.t")) == [1, 2]
    with pytest.raises(errors.InvalidInputError, match="no folder that this server allows"):
        register(rest, "bad", "/etc")
    catalog.drop_table("db.ext")
    assert values(theirs.get_table("o.t")) == [1, 2]


def test_two_catalogs_of_one_server_see_each_other(catalog, server):
    other = open_catalog(metastore="rest", uri=server[0], token="any")  # noqa: S106
    ours, theirs = catalog.create_table("db.t", SCHEMA), other.get_table("db.t")
    for number, table in enumerate((ours, theirs, ours, theirs)):
        write(table, rows(number))
    assert values(other.get_table("db.t")) == [0, 1, 2, 3]
    assert [snapshot.id for snapshot in ours.snapshots()] == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["rest", "filesystem"])
def test_views_are_made_changed_and_dropped(catalog, kind, tmp_path):
    if kind == "filesystem":
        catalog = new_catalog_in(tmp_path / "of-the-file-system")
    views = catalog.views
    made = views.create(
        "db.v", "SELECT 1", {"a": "INT"}, dialects={"spark": "SELECT 2"}, options={"k": "v"}
    )
    assert (made.query_for("spark"), made.query_for("flink")) == ("SELECT 2", "SELECT 1")
    with pytest.raises(errors.AlreadyExistsError):
        views.create("db.v", "SELECT 1", {"a": "INT"})
    changed = views.alter(
        "db.v",
        [
            bodies.AddDialect(dialect="flink", query="SELECT 3"),
            bodies.SetViewOption(key="o", value="p"),
            bodies.UpdateViewComment(comment="c"),
        ],
    )
    assert (changed.query_for("flink"), changed.comment) == ("SELECT 3", "c")
    assert changed.options == {"k": "v", "o": "p"}
    assert [str(column.type) for column in changed.fields] == ["INT"]
    with refused(errors.UnsupportedFeatureError, "is a view", kind="view"):
        catalog.get_table("db.v")
    views.rename("db.v", "db.w")
    assert views.list("db") == ["w"]
    views.drop("db.w")
    views.drop("db.w", ignore_if_missing=True)
    with pytest.raises(errors.NotFoundError):
        views.get("db.w")


def test_command_line_reaches_server(catalog, server, monkeypatch, tmp_path):
    def run(*arguments, uri=("--uri", server[0])):
        result = CliRunner().invoke(main, [*uri, *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    monkeypatch.setenv("PAIMON_TOKEN", "any")
    run("create", "db.t", "--column", "id INT", "--column", "dt STRING")
    write(catalog.get_table("db.t"), rows(7))
    assert "7" in run("read", "db.t")
    monkeypatch.setenv("PAIMON_URI", server[0])
    run("views", "create", "db.v", "SELECT 1", "--column", "a INT", uri=())
    run("views", "dialect", "db.v", "spark", "SELECT 2", uri=())
    run("views", "dialect", "db.v", "spark", "SELECT 3", uri=())
    assert run("views", "show", "db.v", "--dialect", "spark", uri=()) == "SELECT 3\n"
    run("views", "dialect", "db.v", "spark", uri=())
    assert "SELECT 3" not in run("views", "show", "db.v", uri=())
    run("views", "rename", "db.v", "db.w", uri=())
    assert run("views", "list", "db", uri=()) == "db.w\n"
    run("views", "drop", "db.w", "--yes", uri=())
