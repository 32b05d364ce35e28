"""Our client of REST catalogs against the server that Java Paimon tests its own client with."""

import datetime as dt
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import (
    Identifier,
    Schema,
    TableCatalog,
    add_column,
    drop_column,
    open_catalog,
    set_option,
)
from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest import bodies
from paimon_assets.server import bodies as own_bodies
from tests.interop.environment import HOME, ROOT, java_rest_server
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

BEARER = "letmein"
WRONG = "wrong-token"
SCHEMA = Schema.of(
    {"id": "BIGINT", "dt": "STRING", "name": "STRING"},
    primary_keys=["id", "dt"],
    partition_keys=["dt"],
    options={"bucket": "2"},
)


def _server(directory: Path, **settings: object) -> Iterator[tuple[Oracle, str, Path]]:
    if shutil.which("javac") is None or not HOME.exists():
        pytest.skip("there is no JDK on the PATH, or Java Paimon is absent")
    warehouse = directory / "w"
    warehouse.mkdir()
    command = java_rest_server(warehouse, **settings)  # type: ignore[arg-type]
    with Oracle(command, exchange=directory, working_directory=ROOT) as oracle:
        yield oracle, oracle.call("url"), warehouse


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from _server(tmp_path_factory.mktemp("rest"))


@pytest.fixture
def db(request):
    """Return the name of a database of the test's own: the server forgets no snapshot of a name."""
    return request.node.name[:60]


@pytest.fixture
def catalog(server, db) -> Iterator[TableCatalog]:
    made = open_catalog("w", metastore="rest", uri=server[1], token=BEARER)
    made.create_database(db)
    yield made
    made.drop_database(db, cascade=True)


@pytest.fixture
def rest(catalog):
    return catalog._catalog


def rows(ids, name):
    columns = {"id": pa.array(ids, pa.int64()), "dt": ["x"] * len(ids), "name": [name] * len(ids)}
    return pa.table(columns)


def write(table, ids, name):
    return table.new_write_builder().write(rows(ids, name)).snapshot.id


def names(table):
    return {row["id"]: row["name"] for row in table.new_read_builder().to_arrow().to_pylist()}


def test_databases_have_options(catalog, rest, db):
    catalog.create_database(db, ignore_if_exists=True)
    with pytest.raises(errors.AlreadyExistsError, match="exists already") as taken:
        catalog.create_database(db)
    assert taken.value.kind == "database-exists"
    assert rest.get_database(db).name == db
    changed = rest.alter_database(db, updates={"a": "b"}, removals=["x"])
    assert changed.updated == ("a",)
    with pytest.raises(errors.NotFoundError, match="'nope' does not exist") as missing:
        catalog.list_tables("nope")
    assert missing.value.kind == "database-not-found"


def test_tables_are_made_written_read_changed_and_dropped(catalog, db):
    table = catalog.create_table(f"{db}.t", SCHEMA)
    with pytest.raises(errors.AlreadyExistsError, match="exists already"):
        catalog.create_table(f"{db}.t", SCHEMA)
    assert catalog.create_table(f"{db}.t", SCHEMA, ignore_if_exists=True).name == f"{db}.t"
    assert (write(table, [1, 2], "a"), write(table, [2, 3], "b")) == (1, 2)
    assert names(catalog.get_table(f"{db}.t")) == {1: "a", 2: "b", 3: "b"}
    changed = catalog.alter_table(f"{db}.t", [add_column("c", "INT"), set_option("k", "v")])
    assert (changed.schema.id, changed.schema.options["k"]) == (1, "v")
    assert names(changed) == {1: "a", 2: "b", 3: "b"}
    with pytest.raises(errors.InvalidInputError, match="'zzz'"):
        catalog.alter_table(f"{db}.t", [drop_column("zzz")])
    assert catalog.list_tables(db) == ["t"]
    catalog.drop_table(f"{db}.t")
    catalog.drop_table(f"{db}.t", ignore_if_missing=True)
    for call in (catalog.get_table, catalog.drop_table):
        with pytest.raises(errors.NotFoundError, match="does not exist") as missing:
            call(f"{db}.t")
        assert missing.value.kind == "table-not-found"


def test_server_writes_snapshots_into_table_folder(catalog, db):
    table = catalog.create_table(f"{db}.t", SCHEMA)
    write(table, [1], "a")
    assert [file.name for file in Path(table.path, "snapshot").glob("snapshot-*")] == ["snapshot-1"]


def test_names_with_every_character(catalog, db):
    name = f"{db}.x y~*%2Fé+&=%"
    table = catalog.create_table(name, SCHEMA)
    write(table, [1], "a")
    assert names(catalog.get_table(name)) == {1: "a"}
    assert catalog.list_tables(db) == [name.removeprefix(f"{db}.")]


def test_tags_branches_and_rollback(catalog, rest, db):
    table = catalog.create_table(f"{db}.t", SCHEMA)
    write(table, [1], "a")
    write(table, [2], "b")
    table.tags.create("one", 1)
    table.tags.create("two", 2, time_retained=dt.timedelta(hours=1))
    assert rest.list_tags(Identifier(db, "t")) == ["one", "two"]
    assert rest.get_tag(Identifier(db, "t"), "two").time_retained == dt.timedelta(hours=1)
    with pytest.raises(errors.AlreadyExistsError) as taken:
        rest.create_tag(Identifier(db, "t"), "one", 2)
    assert taken.value.kind == "tag-exists"
    for call, kind in (
        (lambda: rest.get_tag(Identifier(db, "t"), "no"), "tag-not-found"),
        (lambda: rest.delete_tag(Identifier(db, "t"), "no"), "tag-not-found"),
        (lambda: rest.create_tag(Identifier(db, "t"), "no", 99), "snapshot-not-found"),
        (lambda: rest.rollback_to(Identifier(db, "t"), 99), "snapshot-not-found"),
        (lambda: rest.rollback_to(Identifier(db, "t"), "no"), "tag-not-found"),
        (lambda: rest.drop_branch(Identifier(db, "t"), "no"), "branch-not-found"),
        (lambda: catalog.get_table(f"{db}.t$branch_no"), "branch-not-found"),
    ):
        with pytest.raises(errors.NotFoundError) as missing:
            call()
        assert missing.value.kind == kind
    # Before a branch is written to: that moves the server's hint of main's newest snapshot.
    write(table, [3], "c")
    assert names(catalog.get_table(f"{db}.t")) == {1: "a", 2: "b", 3: "c"}
    catalog.get_table(f"{db}.t").rollback_to(2)
    # The server lets each branch begin with main's newest snapshot, whatever the tag.
    rest.create_branch(Identifier(db, "t"), "b", from_tag="two")
    branch = catalog.get_table(f"{db}.t$branch_b")
    assert write(branch, [9], "z") == 3
    assert names(catalog.get_table(f"{db}.t$branch_b")) == {1: "a", 2: "b", 9: "z"}
    assert names(catalog.get_table(f"{db}.t")) == {1: "a", 2: "b"}
    rest.drop_branch(Identifier(db, "t"), "b")
    assert rest.list_branches(Identifier(db, "t")) == []


def test_commit_with_lost_answer_is_made_once(catalog, server, db):
    table = catalog.create_table(f"{db}.t", SCHEMA)
    server[0].call("lose_answer")
    assert write(table, [1], "a") == 1
    assert [snapshot.id for snapshot in catalog.get_table(f"{db}.t").snapshots()] == [1]
    assert names(catalog.get_table(f"{db}.t")) == {1: "a"}


def test_refused_clients_get_reason_and_no_token_is_shown(catalog, server, db):
    catalog.create_table(f"{db}.secret", SCHEMA)
    server[0].call("forbid", table=f"{db}.secret")
    with pytest.raises(errors.AccessDeniedError) as forbidden:
        catalog.get_table(f"{db}.secret")
    assert forbidden.value.kind == "forbidden"
    with pytest.raises(errors.AccessDeniedError) as unknown:
        open_catalog("w", metastore="rest", uri=server[1], token=WRONG)
    assert unknown.value.kind == "unauthorized"
    assert WRONG not in str(unknown.value)
    shown = catalog.get_system_table("sys.catalog_options").to_arrow().to_pylist()
    assert {"key": "token", "value": "******"} in shown
    assert BEARER not in repr(rest_of(catalog))


def rest_of(catalog):
    return catalog._catalog, catalog._catalog._api._client


def test_views(catalog, rest, db):
    view = Identifier(db, "v")
    body = bodies.ViewSchema(fields=SCHEMA.fields, query="select 1", dialects={"spark": "select 2"})
    rest.create_view(view, body)

    with pytest.raises(errors.AlreadyExistsError) as taken:
        rest.create_view(view, body)
    assert taken.value.kind == "view-exists"
    rest.alter_view(
        view,
        [
            bodies.SetViewOption(key="k", value="v"),
            bodies.AddDialect(dialect="flink", query="select 3"),
        ],
    )
    got = rest.get_view(view).schema
    assert got.fields == SCHEMA.fields
    assert (got.dialects, got.options) == ({"spark": "select 2", "flink": "select 3"}, {"k": "v"})
    rest.rename_view(view, Identifier(db, "w"))
    assert rest.list_views(db) == ["w"]
    rest.drop_view(Identifier(db, "w"))
    with pytest.raises(errors.NotFoundError) as missing:
        rest.get_view(view)
    assert missing.value.kind == "view-not-found"


def partitions(rest, db, table):
    path = ("databases", db, "tables", table, "partitions")
    return rest._api.list_all(path, own_bodies.ListPartitionsResponse, "partitions")


def test_numbers_unknown_to_server_are_refused_by_name(catalog, rest, db):
    catalog.create_table(f"{db}.t", SCHEMA)
    with pytest.raises(errors.UnsupportedFeatureError) as refused:
        partitions(rest, db, "t")
    assert refused.value.kind == "server-unsupported"
    catalog.create_table(
        f"{db}.p",
        Schema.of(
            {"id": "BIGINT", "dt": "STRING", "name": "STRING"},
            partition_keys=["dt"],
            options={"metastore.partitioned-table": "true"},
        ),
    )
    write(catalog.get_table(f"{db}.p"), [1, 2], "a")
    write(catalog.get_table(f"{db}.p"), [3], "a")
    (partition,) = partitions(rest, db, "p")
    assert (partition.spec, partition.record_count) == ({"dt": "x"}, 3)


def test_only_empty_database_is_dropped_without_cascade(catalog, db):
    catalog.create_database(f"{db}_2")
    catalog.create_table(f"{db}_2.t", SCHEMA)
    with pytest.raises(errors.InvalidInputError, match="'t'"):
        catalog.drop_database(f"{db}_2")
    catalog.drop_table(f"{db}_2.t")
    catalog.drop_database(f"{db}_2")
    assert f"{db}_2" not in catalog.list_databases()


def test_server_authorises_read_columns(catalog, server, db):
    table = catalog.create_table(f"{db}.t", SCHEMA)
    write(table, [1], "a")
    catalog.alter_table(f"{db}.t", [set_option("query-auth.enabled", "true")])
    server[0].call("columns", table=f"{db}.t", columns=["id", "dt"])
    read = catalog.get_table(f"{db}.t").new_read_builder()
    assert read.with_columns(["id"]).to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(errors.AccessDeniedError):
        read.to_arrow()


def test_signed_requests_are_taken(tmp_path):
    for _, url, _ in _server(tmp_path, auth="dlf"):
        keys = {"token.provider": "dlf", "dlf.access-key-id": "AKID", "dlf.region": "cn-hangzhou"}
        options = {**keys, "dlf.access-key-secret": "AKSECRET"}
        catalog = open_catalog("w", options, metastore="rest", uri=url)
        catalog.create_database("db")
        name = "db.a b~*é"
        write(catalog.create_table(name, SCHEMA), [1], "a")
        rest = catalog._catalog
        parts, pattern = ("databases", "db", "tables"), {"tableNamePattern": "a%"}
        page = rest._api.get(parts, bodies.ListTablesResponse, pattern)
        assert list(page.tables) == ["a b~*é"]
        wrong = {**keys, "dlf.access-key-secret": "another-secret"}
        with pytest.raises(errors.PaimonError) as refused:
            open_catalog("w", wrong, metastore="rest", uri=url)
        assert "another-secret" not in str(refused.value)


def test_data_tokens_are_asked_for(tmp_path):
    for oracle, url, _ in _server(tmp_path, data_tokens=True):
        catalog = open_catalog("w", metastore="rest", uri=url, token=BEARER)
        catalog.create_database("db")
        catalog.create_table("db.t", SCHEMA)
        in_a_day = int(time.time() + 86_400) * 1000
        oracle.call("token", table="db.t", token={"fs.oss.accessKeyId": "k"}, expires=in_a_day)
        table = catalog.get_table("db.t")
        write(table, [1], "a")
        assert names(catalog.get_table("db.t")) == {1: "a"}
