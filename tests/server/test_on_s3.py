"""A server on an object store: it renames no directory, and puts are conditional."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving
from tests.testkit.rest_tables import rename_body, table_body
from tests.testkit.s3_faults import s3_faults
from tests.testkit.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.slow

WAREHOUSE = f"s3://{BUCKET}/warehouse"
WRITES = 5
"""By four threads at once, so that writers race."""


@pytest.fixture(scope="module")
def options():
    """Return options of the storage."""
    with s3_server() as found:
        yield found


@pytest.fixture(scope="module")
def clients(options):
    """Start two servers on one warehouse."""
    settings = ServeSettings(warehouse=WAREHOUSE, storage_options=options, insecure=True)
    with serving(settings) as one, serving(settings) as other:
        assert one.post("databases", {"name": "db", "options": {"a": "b"}}).status == 200
        yield one, other


def open_client(client, options):
    """Open a catalog on a server, with its own credentials for files."""
    uri = f"http://127.0.0.1:{client.port}"
    return open_catalog(metastore="rest", uri=uri, token="any", options=options)  # noqa: S106


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int32()), "text": [str(number) for number in ids]})


def test_writers_through_two_servers_lose_nothing(clients, options):
    clients[0].post("databases/db/tables", table_body("t", options={"commit.max-retries": "100"}))

    def write(number):
        table = open_client(clients[number % 2], options).get_table("db.t")
        table.new_write_builder().write(rows(number), EmbeddedExecutor())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(WRITES)))
    beside = open_catalog(WAREHOUSE, options).get_table("db.t")
    assert sorted(beside.new_read_builder().to_arrow()["id"].to_pylist()) == list(range(WRITES))
    assert [snapshot.id for snapshot in beside.snapshots()] == list(range(1, WRITES + 1))


def test_rename_keeps_id_and_drop_leaves_nothing(clients):
    one, other = clients
    one.post("databases/db/tables", table_body("moved"))
    known = other.get("databases/db/tables/moved").json["id"]
    assert one.post("tables/rename", rename_body("db.moved", "db.there")).status == 200
    assert other.get("databases/db/tables/there").json["id"] == known
    assert other.get(f"tables/id/{known}").json["name"] == "there"
    assert one.delete("databases/db/tables/there").status == 200
    assert other.get("databases/db/tables/there").status == 404
    one.post("databases/db/tables", table_body("there"))
    assert other.get("databases/db/tables/there").json["id"] != known


def test_views_and_properties_are_shared_by_servers(clients):
    one, other = clients
    view = {"identifier": {"database": "db", "object": "v"}, "schema": {"query": "1"}}
    assert one.post("databases/db/views", view).status == 200
    assert other.post("databases/db/views", view).status == 409
    assert other.get("databases/db").json["options"] == {"a": "b"}
    assert other.get("databases").json["databases"] == ["db"]


@pytest.fixture(scope="module")
def without_conditions(options):
    """Return options of a store that takes the condition of a put and ignores it."""
    with s3_faults(options) as (faults, through):
        faults.ignores_conditions = True
        yield through


def test_store_without_conditional_put_takes_no_commits(without_conditions):
    settings = ServeSettings(
        warehouse=f"s3://{BUCKET}/unsafe", storage_options=without_conditions, insecure=True
    )
    with serving(settings) as client:
        answer = client.post("databases", {"name": "db"})
        assert answer.status == 501
        assert "conditional put" in answer.json["message"]


def test_sole_writer_commits_without_conditional_put(without_conditions):
    warehouse = f"s3://{BUCKET}/sole"
    settings = ServeSettings(
        warehouse=warehouse, storage_options=without_conditions, insecure=True, sole_writer=True
    )
    with serving(settings) as client:
        assert client.post("databases", {"name": "db"}).status == 200
        body = table_body("t", options={"commit.max-retries": "100"})
        assert client.post("databases/db/tables", body).status == 200
        bodies = [table_body(f"t{number % 2}") for number in range(4)]

        def write(number):
            table = open_client(client, without_conditions).get_table("db.t")
            table.new_write_builder().write(rows(number), EmbeddedExecutor())
            return client.post("databases/db/tables", bodies[number]).status

        with ThreadPoolExecutor(4) as pool:
            made = sorted(pool.map(write, range(4)))
    assert made == [200] * 2 + [409] * 2
    beside = open_catalog(warehouse, without_conditions).get_table("db.t")
    assert sorted(beside.new_read_builder().to_arrow()["id"].to_pylist()) == list(range(4))
    assert [snapshot.id for snapshot in beside.snapshots()] == list(range(1, 5))
