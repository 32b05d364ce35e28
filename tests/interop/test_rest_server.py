"""Our catalog server, walked through by clients we did not write."""

import json
import subprocess

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.interop.environment import HOME, peer_python
from tests.testkit.rest_server import BEARER, TOKEN, RestClient, served_to_outsiders, signed_by
from tests.testkit.rest_tables import created, open_posted, write

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if not HOME.exists():
        pytest.skip("the peers' environment is absent; `make interop` creates it")
    with served_to_outsiders(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.mark.parametrize(
    "options",
    [BEARER, signed_by("default"), signed_by("openapi")],
    ids=["bearer", "default", "openapi"],
)
def test_pypaimon_completes_rest_scenario(server, options, request):
    database = f"py_{request.node.callspec.id}"
    command = [str(peer_python()), "-m", "tests.interop.peers.pypaimon_rest"]
    seen = server.walk(command, database, options)
    assert seen.pop("properties")["made-by"] == "pypaimon"
    assert seen == {
        "database twice": "DatabaseAlreadyExistException",
        "databases": True,
        "no table": "TableNotExistException",
        "table twice": "TableAlreadyExistException",
        "written": [[0, "p0"], [1, "p1"], [2, "p2"]],
        "newest": 3,
        "tag": 2,
        "tags": ["second"],
        "branches": ["b"],
        "branch": [[0, "p0"], [1, "p1"], [20, "p20"]],
        "rolled back": [[0, "p0"], [1, "p1"]],
        "columns": ["id", "text", "more"],
        "altered": [[0, "p0", None], [1, "p1", None], [5, "p5", 7]],
        "branches after": [],
        "tags after": [],
        "tables": ["u"],
        "dropped": [],
        "gone": True,
    }


def test_rust_completes_rest_scenario(server):
    command = [str(peer_python()), "-m", "tests.interop.peers.rust_rest"]
    seen = server.walk(command, "rust", BEARER)
    assert seen == {
        "databases": True,
        "tables": ["kept", "t"],
        "written": [[1, "r1"], [2, "r2"], [3, "r3"]],
        "tag": True,
        "roll back": True,
        "rolled back": [[1, "r1"], [2, "r2"]],
        "alter": True,
        "drop": True,
        "after": ["kept"],
    }
    kept = open_catalog(str(server.warehouse)).get_table("rust.kept")
    assert kept.new_read_builder().to_arrow().to_pydict() == {"id": [7], "text": ["r7"]}


def test_foreign_clients_are_refused(server):
    command = [str(peer_python()), "-m", "tests.interop.peers.pypaimon_rest"]
    with pytest.raises(AssertionError, match="NotAuthorizedException"):
        server.walk(command, "nobody", {**BEARER, "token": "another"})


def test_pypaimon_reads_server_tables_on_file_system(server, tmp_path):
    """The server's files beside tables are no table of theirs, and are deleted when they drop."""
    client = RestClient(int(server.uri.rsplit(":", 1)[1])).of(TOKEN)
    assert client.post("databases", {"name": "mixed", "options": {"a": "b"}}).status == 200
    made = created(client, "t", "mixed", partitionKeys=["text"])
    write(open_posted(client, made)[0], 1)
    view = {"identifier": {"database": "mixed", "object": "v"}, "schema": {"query": "1"}}
    assert client.post("databases/mixed/views", view).status == 200
    client.post("databases/mixed/functions", {"name": "f"})
    marked = {"specs": [{"text": "x1"}]}
    assert client.post("databases/mixed/tables/t/partitions/mark", marked).status == 200
    program = (
        "import json, sys; from pypaimon import CatalogFactory\n"
        "c = CatalogFactory.create({'warehouse': 'file://' + sys.argv[1]})\n"
        "b = c.get_table('mixed.t').new_read_builder()\n"
        "n = b.new_read().to_arrow(b.new_scan().plan().splits()).num_rows\n"
        "seen = [c.list_databases(), c.list_tables('mixed'), n]\n"
        "c.rename_table('mixed.t', 'mixed.u'); c.drop_table('mixed.u')\n"
        "c.drop_database('mixed'); print(json.dumps(seen))"
    )
    done = subprocess.run(
        [str(peer_python()), "-c", program, str(server.warehouse)],
        capture_output=True,
        text=True,
        check=True,
    )
    databases, tables, count = json.loads(done.stdout)
    assert "mixed" in databases
    assert (tables, count) == (["t"], 1)
    assert all(not name.startswith(".") for name in databases)
    assert client.get("databases/mixed").status == 404
    client.post("databases", {"name": "mixed"})
    assert client.get("databases/mixed/views").json["views"] == []
