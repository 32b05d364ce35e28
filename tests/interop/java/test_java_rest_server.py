"""Our catalog server, walked through by Java's RESTCatalog."""

import pytest

from tests.interop.environment import java_program
from tests.testkit.rest_walks import BEARER, served_to_outsiders, signed_by

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server."""
    with served_to_outsiders(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.mark.parametrize(
    "options",
    [BEARER, signed_by("default"), signed_by("openapi")],
    ids=["bearer", "default", "openapi"],
)
def test_java_walks_through(served, options, request):
    database = f"java_{request.node.callspec.id}"
    seen = served.walk(java_program("RestWalk"), database, options)
    assert seen == {
        "database twice": "DatabaseAlreadyExistException",
        "made-by": "java",
        "more": "1",
        "no table": "TableNotExistException",
        "table twice": "TableAlreadyExistException",
        "written": ["0=x0", "1=x1", "2=x2"],
        "newest": 3,
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
        "not empty": "DatabaseNotEmptyException",
        "gone": True,
    }
