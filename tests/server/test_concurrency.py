"""Many writers at once, through one server, through two, and beside them on the file system."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from paimon_assets.engine.control.commit import file_store_commit
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.api import open_table
from paimon_assets.server.serve import ServeSettings, SoleWriterFileIO
from tests.testkit import rest_tables
from tests.testkit.rest_server import serving

pytestmark = pytest.mark.slow

PATIENT = {"commit.max-retries": "1000", "commit.timeout": "5 min", "bucket": "-1"}
SERVED, BESIDE, COMMITS = 20, 4, 2


@pytest.fixture(scope="module")
def second(served):
    """Another server on the same warehouse."""
    with serving(ServeSettings(warehouse=served, insecure=True)) as found:
        yield found


def _numbers(writer):
    return [writer * COMMITS + number for number in range(COMMITS)]


def test_twenty_by_servers_and_four_beside_lose_and_double_nothing(
    client, second, name, monkeypatch
):
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
    assert lost > 0  # they were at it at once
    assert (
        client.get(f"databases/db/tables/{name}/snapshot").json["snapshot"]["recordCount"]
        == expected
    )


def test_of_two_commits_for_one_place_one_gets_false(client, second, name):
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


def test_one_snapshot_sent_by_many_is_there_once_and_all_hear_true(client, second, name):
    made = rest_tables.created(client, name)
    body = rest_tables.commit_body(made, rest_tables.prepared(made, 1))
    path = f"databases/db/tables/{name}/commit"
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda n: (client, second)[n % 2].post(path, body), range(8))
        assert {answer.json["success"] for answer in answers} == {True}
    assert rest_tables.ids_of(open_table(made["path"])) == [1]


def test_one_of_many_creators_makes_a_table(client, second, name):
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda n: (client, second)[n % 2].post(
                "databases/db/tables", rest_tables.table_body(name)
            ),
            range(8),
        )
        assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    ids = {each.get(f"databases/db/tables/{name}").json["id"] for each in (client, second)}
    assert len(ids) == 1


def test_one_of_many_creators_makes_a_database(client, second, name):
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda n: (client, second)[n % 2].post(
                    "databases", {"name": name, "options": {"by": str(n)}}
                ),
                range(8),
            )
        )
    statuses = [answer.status for answer in answers]
    assert sorted(statuses) == [200] + [409] * 7
    options = second.get(f"databases/{name}").json["options"]
    assert options == {"by": str(statuses.index(200))}


def test_changes_of_one_schema_at_once_are_all_made(client, second, name):
    rest_tables.created(client, name)
    path = f"databases/db/tables/{name}"

    def add(number):
        change = {"action": "addColumn", "fieldNames": [f"c{number}"], "dataType": "INT"}
        return (client, second)[number % 2].post(path, {"changes": [change]}).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(add, range(8))) == {200}
    fields = client.get(path).json["schema"]["fields"]
    assert {field["name"] for field in fields} == {"id", "text", *(f"c{n}" for n in range(8))}
    assert len({field["id"] for field in fields}) == 10


def test_table_dropped_and_recreated_all_the_time_mixes_nothing(client, second, name):
    """A commit that was made for one table never ends up in the next of its name."""
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


def test_one_server_serialises_commits_for_the_storage(tmp_path):
    storage = SoleWriterFileIO(Plain(LocalFileIO()))
    path = str(tmp_path / "s.db" / "t" / "snapshot" / "snapshot-1")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: storage.publish(path, str(n).encode()), range(32)))
    assert won.count(True) == 1
    assert storage.read_bytes(path) == str(won.index(True)).encode()
