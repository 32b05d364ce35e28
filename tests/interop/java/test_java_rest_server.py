"""Our catalog server, walked through by Java's RESTCatalog."""

import pytest

from paimon_assets.server.serve import ServeSettings
from tests.interop.environment import java_program
from tests.testkit.rest_server import BEARER, served_to_outsiders, serving, signed_by
from tests.testkit.rest_tables import created, open_posted, write

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served_to_outsiders(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.mark.parametrize(
    "options",
    [BEARER, signed_by("default"), signed_by("openapi")],
    ids=["bearer", "default", "openapi"],
)
def test_java_completes_rest_scenario(server, options, request):
    database = f"java_{request.node.callspec.id}"
    seen = server.walk(java_program("RestWalk"), database, options)
    assert seen == {
        "database twice": "DatabaseAlreadyExistException",
        "made-by": "java",
        "more": "1",
        "no table": "TableNotExistException",
        "table twice": "TableAlreadyExistException",
        "written": ["0=x0", "1=x1", "2=x2"],
        "newest": 3,
        "consumers": ["job=2"],
        "no consumers": [],
        "tag": 2,
        "tags": ["second"],
        "branches": ["b"],
        "branch": ["0=x0", "1=x1", "20=b"],
        "rolled back": ["0=x0", "1=x1"],
        "forwarded": ["0=x0", "1=x1", "20=b"],
        "rolled back to a tag": ["0=x0", "1=x1"],
        "columns": ["more", "id", "text"],
        "same id": True,
        "after": [],
        "partitions": ["{day=mon} 2 true", "{day=tue} 1 false"],
        "view": [2, "select 2", "other", "d"],
        "dialect twice": "DialectAlreadyExistException",
        "views": ["w"],
        "no view": "ViewNotExistException",
        "tables": ["p", "u"],
        "pages": [["p"], ["u"]],
        "of odd names": [],
        "not empty": "DatabaseNotEmptyException",
        "gone": True,
    }


def test_java_reads_server_tables_on_file_system(java, shared_warehouse):
    """The server's files beside tables are no table, and no orphan, of Java's."""
    with serving(ServeSettings(warehouse=str(shared_warehouse), insecure=True)) as client:
        assert client.post("databases", {"name": "beside", "options": {"a": "b"}}).status == 200
        made = created(client, "t", "beside", partitionKeys=["text"])
        write(open_posted(client, made)[0], 1)
        view = {"identifier": {"database": "beside", "object": "v"}, "schema": {"query": "1"}}
        assert client.post("databases/beside/views", view).status == 200
        marked = {"specs": [{"text": "x1"}]}
        client.post("databases/beside/tables/t/partitions/mark", marked)
        add = {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT"}
        client.post("databases/beside/tables/t", {"changes": [add]})
        before = client.get("databases/beside/tables/t").json
        assert java.call("change", table="beside.t", action="clean_orphans") == 0
        assert client.get("databases/beside/tables/t").json == before
        [partition] = client.get("databases/beside/tables/t/partitions").json["partitions"]
        assert partition["done"]
        assert len(java.call("rows", table="beside.t")) == 1
        assert client.delete("databases/beside").status == 200
