"""Many writers at once: through one server, through two, and beside them on the file system."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from paimon_assets import UnsupportedFeatureError, open_table
from paimon_assets.engine.control.commit import file_store_commit
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.serve import ServeSettings, SoleWriterFileIO
from tests.testkit import rest_tables
from tests.testkit.rest_server import serving

pytestmark = pytest.mark.slow

PATIENT = {"commit.max-retries": "1000", "commit.timeout": "5 min", "bucket": "-1"}
SERVED, BESIDE, COMMITS = 20, 4, 2


@pytest.fixture(scope="module")
def second(served):
    """Start another server on the same warehouse."""
    with serving(ServeSettings(warehouse=served, insecure=True)) as found:
        yield found


def _numbers(writer):
    return [writer * COMMITS + number for number in range(COMMITS)]


def test_writers_through_servers_and_beside_them_lose_no_commit(client, second, name, monkeypatch):
    monkeypatch.setattr(file_store_commit, "_turn", lambda _: nullcontext(False))  # as processes
    made = rest_tables.created(client, name, options=PATIENT)

    def through(writer):
        table, posted = rest_tables.open_posted((client, second)[writer % 2], made)
        for number in _numbers(writer):
            rest_tables.write(table, number)
        return posted.lost

    def beside(writer):
        table = open_table(made["path"])
        for number in _numbers(writer):
            rest_tables.write(table, number)
        return 0

    with ThreadPoolExecutor(SERVED + BESIDE) as pool:
        runs = [pool.submit(through, writer) for writer in range(SERVED)]
        runs += [pool.submit(beside, SERVED + writer) for writer in range(BESIDE)]
        lost = sum(run.result() for run in runs)
    expected = (SERVED + BESIDE) * COMMITS
    table = open_table(made["path"])
    assert rest_tables.ids_of(table) == list(range(expected))
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, expected + 1))
    assert lost > 0  # writers raced
    snapshot = client.get(f"databases/db/tables/{name}/snapshot").json["snapshot"]
    assert snapshot["recordCount"] == expected


def test_one_of_many_commits_of_snapshot_id_succeeds(client, second, name):
    made = rest_tables.created(client, name)
    bodies = [
        rest_tables.commit_body(made, rest_tables.prepared(made, n), baseSnapshotUuid=None)
        for n in range(8)
    ]
    path = f"databases/db/tables/{name}/commit"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: (client, second)[n % 2].post(path, bodies[n]), range(8)))
    outcomes = [answer.json["success"] for answer in answers]
    assert sorted(outcomes) == [False] * 7 + [True]
    [winner] = rest_tables.ids_of(open_table(made["path"]))
    assert outcomes[winner]


def test_same_commit_sent_many_times_is_made_once(client, second, name):
    made = rest_tables.created(client, name)
    body = rest_tables.commit_body(made, rest_tables.prepared(made, 1))
    path = f"databases/db/tables/{name}/commit"
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda n: (client, second)[n % 2].post(path, body), range(8))
        assert {answer.json["success"] for answer in answers} == {True}
    assert rest_tables.ids_of(open_table(made["path"])) == [1]


def _post_from_eight(clients, path, body_of):
    with ThreadPoolExecutor(8) as pool:
        return [*pool.map(lambda n: clients[n % 2].post(path, body_of(n)).status, range(8))]


def test_one_of_many_creators_makes_table(client, second, name):
    body = rest_tables.table_body(name)
    statuses = _post_from_eight((client, second), "databases/db/tables", lambda _: body)
    assert sorted(statuses) == [200] + [409] * 7
    ids = {each.get(f"databases/db/tables/{name}").json["id"] for each in (client, second)}
    assert len(ids) == 1


def test_one_of_many_creators_makes_database(client, second, name):
    statuses = _post_from_eight(
        (client, second), "databases", lambda n: {"name": name, "options": {"by": str(n)}}
    )
    assert sorted(statuses) == [200] + [409] * 7
    options = second.get(f"databases/{name}").json["options"]
    assert options == {"by": str(statuses.index(200))}


def test_concurrent_schema_changes_are_all_made(client, second, name):
    rest_tables.created(client, name)
    path = f"databases/db/tables/{name}"

    def add_column(number):
        column = {"action": "addColumn", "fieldNames": [f"c{number}"], "dataType": "INT"}
        return {"changes": [column]}

    assert set(_post_from_eight((client, second), path, add_column)) == {200}
    fields = client.get(path).json["schema"]["fields"]
    assert {field["name"] for field in fields} == {"id", "text", *(f"c{n}" for n in range(8))}
    assert len({field["id"] for field in fields}) == 10


def test_commit_of_dropped_table_never_reaches_recreated_one(client, second, name):
    path = f"databases/db/tables/{name}"
    seen = []
    for round_ in range(6):
        made = rest_tables.created(client, name)
        assert rest_tables.ids_of(open_table(made["path"])) == []
        body = rest_tables.commit_body(made, rest_tables.prepared(made, round_))
        with ThreadPoolExecutor(2) as pool:
            commit = pool.submit(second.post, f"{path}/commit", body)
            assert pool.submit(client.delete, path).result().status == 200
            seen.append(commit.result().status)
        assert client.get(path).status == 404
        late = rest_tables.created(client, name)
        assert second.post(f"{path}/commit", body).status == 404
        assert rest_tables.ids_of(open_table(late["path"])) == []
        client.delete(path)
    assert set(seen) <= {200, 404, 500}


class Plain:
    """A storage that creates files, and cannot do so only if there is none."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def publish(self, path, data):
        raise UnsupportedFeatureError("no conditional put", kind=NO_ATOMIC_PUBLISH)


def test_one_server_serialises_commits_for_storage(tmp_path):
    storage = SoleWriterFileIO(Plain(LocalFileIO()))
    path = str(tmp_path / "s.db" / "t" / "snapshot" / "snapshot-1")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: storage.publish(path, str(n).encode()), range(32)))
    assert won.count(True) == 1
    assert storage.read_bytes(path) == str(won.index(True)).encode()
