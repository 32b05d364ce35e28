"""Spark Connect: a real server, and a client in a process of its own (see `connect_client`)."""

import pytest

from tests.testkit.processes import answer_of

for needed in ("pyspark", "grpc", "grpc_status", "google.rpc"):
    pytest.importorskip(needed, reason="Spark Connect needs the extra 'connect'")
server = pytest.importorskip("tests.testkit.connect_server")

pytestmark = pytest.mark.spark

ROWS = 1000
TOTAL = sum(range(ROWS)) - 2 - 1
"""Of n, after the rows of keys 1 and 1000 came with -1."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Name of a call → its result or error."""
    home = tmp_path_factory.mktemp("connect")
    with server.connect_server(home) as address:
        return answer_of("tests.testkit.connect_client", address, str(home))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("write", [ROWS + 1, TOTAL] * 2),
        ("compact", [[ROWS + 1, TOTAL] * 2, [5], [[998, 998], [999, 999], [1000, -1]]]),
        ("stream", [[ROWS, sum(range(ROWS))] * 2, [0]]),
        ("merge", [500, 500, [1500, sum(range(500))] * 2]),
        ("sql", [[[2, 22], [3, 30], [4, 4]], [10, 20, 30], [[56]], []]),
        ("joins", [[[True, False], [False, True]], ROWS]),
        ("dagster", [True, [0, 20, 40]]),
        ("names", [["write db.t snapshot 1"], []]),
        ("lost_file", "file-not-found"),
        ("same_session", True),
        ("released_session", [True, 3]),
        ("foreign_session", [True, 3]),
    ],
)
def test_supported_calls_work_over_connect(call, expected, outcomes):
    assert outcomes[call] == {"value": expected}


@pytest.mark.parametrize(
    ("call", "kind", "parts"),
    [
        ("bad_rows", "input-null", ["db.t", "'n'", "1 of"]),
        ("fixed_setting", "spark-session-settings", ["spark.executor.memory"]),
        ("other_kind", "spark-session-settings", ["local[1]", "stop_session"]),
        ("other_server", "spark-session-settings", ["sc://127.0.0.1:1/ is asked for"]),
        ("no_server", "spark-connect", ["No Spark Connect server answers at sc://127.0.0.1:1/"]),
        ("no_address", "spark-connect", ["'sc://127.0.0.1:1/path'"]),
    ],
)
def test_unsupported_calls_are_refused_over_connect(call, kind, parts, outcomes):
    refused = outcomes[call]
    assert refused["kind"] == kind
    for part in parts:
        assert part in refused["message"]
    assert "hunter2" not in refused["message"]
