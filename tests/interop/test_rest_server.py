"""Our catalog server, walked through by clients we did not write."""

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.interop.environment import HOME, peer_python
from tests.testkit.rest_walks import BEARER, served_to_outsiders, signed_by

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server."""
    if not HOME.exists():
        pytest.skip("the peers' environment is absent; `make interop` creates it")
    with served_to_outsiders(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.mark.parametrize(
    "options",
    [BEARER, signed_by("default"), signed_by("openapi")],
    ids=["bearer", "default", "openapi"],
)
def test_pypaimon_walks_through(served, options, request):
    database = f"py_{request.node.callspec.id}"
    command = [str(peer_python()), "-m", "tests.interop.peers.pypaimon_rest"]
    seen = served.walk(command, database, options)
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


def test_rust_walks_through_and_leaves_a_table_to_us(served):
    command = [str(peer_python()), "-m", "tests.interop.peers.rust_rest"]
    seen = served.walk(command, "rust", BEARER)
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
    kept = open_catalog(str(served.warehouse)).get_table("rust.kept")
    assert kept.new_read_builder().to_arrow().to_pydict() == {"id": [7], "text": ["r7"]}


def test_nobody_else_comes_in(served):
    command = [str(peer_python()), "-m", "tests.interop.peers.pypaimon_rest"]
    with pytest.raises(AssertionError, match="NotAuthorizedException"):
        served.walk(command, "nobody", {**BEARER, "token": "another"})
