"""Tokens that end in the middle of Spark jobs: a real server, a storage that refuses old ones.

The server hands out one key after the other. The storage serves each for some requests, whoever
makes them: this process while it plans or commits, or tasks in the middle of a job.
"""

import hashlib

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema, open_catalog
from paimon_assets.engine.codec.rest.bodies import TokenResponse
from paimon_assets.engine.control.catalog.rest_catalog import TableStorage
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.errors import ACCESS_DENIED, TOKEN_EXPIRED, StorageError
from paimon_assets.engine.fileio.delegating import RenewedFileIO
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving
from tests.testkit.rows import rows_to_arrow
from tests.testkit.s3_faults import s3_faults
from tests.testkit.s3_server import BUCKET, s3_server

executors = pytest.importorskip("paimon_assets.spark.executor")
merge = pytest.importorskip("paimon_assets.spark.dataframes.merge")
preflight = pytest.importorskip("paimon_assets.spark.preflight")
with_renewal = pytest.importorskip("paimon_assets.spark.failure").with_renewal
worker = pytest.importorskip("paimon_assets.spark.worker")
streaming = pytest.importorskip("paimon_assets.spark.dataframes.tables")

pytestmark = pytest.mark.spark

OPTIONS = {"bucket": "3", "changelog-producer": "input"}  # a file beside each
SCHEMA = Schema.of({"id": "INT", "value": "INT"}, primary_keys=["id"], options=OPTIONS)
MANY = 1_000_000
TOKEN = "etl-token"  # noqa: S105


class Clock(SystemClock):
    """The server's; for so many calls it is late by the life of a token, which then is over."""

    late = 0

    def now_millis(self):
        if not self.late:
            return super().now_millis()
        self.late -= 1
        return super().now_millis() - 12 * 3_600_000


class FarClock:
    """A clock of which each look is a millisecond later, in a far time."""

    def __init__(self):
        self.now = 10**14

    def now_millis(self):
        self.now += 1
        return self.now


class Keys:
    """The keys that the server hands out, one after the other."""

    def __init__(self, path, faults):
        self.path, self.faults, self.number = path, faults, 0
        self.lives = []
        faults.on_end = lambda _: self.next()
        self.next()

    def next(self):
        self.number += 1
        if self.lives:
            self.faults.lives[f"KEY{self.number}"] = self.lives.pop(0)
        new = self.path.with_suffix(".new")
        new.write_text(f'[update]\n"s3.access-key" = "KEY{self.number}"\n"s3.secret-key" = '
                       '{ secret-file = "secret" }')  # fmt: skip
        new.replace(self.path)

    def end_after(self, *requests):
        """Let the key of now end after so many requests, and the next ones after so many."""
        self.lives = list(requests[1:])
        self.faults.lives[f"KEY{self.number}"] = requests[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "secret").write_text("secret-of-all-keys")
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (folder / "principals.toml").write_text(
        f'[[principal]]\nname = "etl"\ntoken-sha256 = ["{digest}"]\n'
        'grants = [{ on = "*", may = ["all"] }]'
    )
    with s3_server() as options, s3_faults(options) as (faults, through):
        keys = Keys(folder / "tokens.toml", faults)
        secrets = ("s3.access-key", "s3.secret-key")
        settings = ServeSettings(
            warehouse=f"s3://{BUCKET}/renewed",
            storage_options=options,
            principals=folder / "principals.toml",
            data_tokens=folder / "tokens.toml",
            client_options={k: v for k, v in through.items() if k not in secrets},
        )
        clock = Clock()
        with serving(settings, clock) as client:
            uri = f"http://127.0.0.1:{client.port}"
            open_catalog(metastore="rest", uri=uri, token=TOKEN).create_database("db")
            yield uri, keys, clock, open_catalog(settings.warehouse, options)


def open_rest(world):
    """Return a catalog that holds no token yet."""
    return open_catalog(metastore="rest", uri=world[0], token=TOKEN)


@pytest.fixture
def catalog(world):
    return open_rest(world)


@pytest.fixture
def name(keys, request):
    """Return a table's name of the test's own; the key of now does not end."""
    keys.faults.reset()
    keys.lives = []
    keys.next()
    return "db." + "".join(c if c.isalnum() else "_" for c in request.node.name)


@pytest.fixture
def table(catalog, name):
    return catalog.create_table(name, SCHEMA)


@pytest.fixture
def keys(world):
    return world[1]


@pytest.fixture
def clock(world):
    yield world[2]
    world[2].late = 0


@pytest.fixture
def executor(spark):
    return executors.SparkExecutor(spark)


def rows(start, end, value):
    return rows_to_arrow([{"id": n, "value": value} for n in range(start, end)], SCHEMA)


def read_values(table):
    got = table.new_read_builder().to_arrow().to_pylist()
    return {row["id"]: row["value"] for row in got}


def test_write_with_expired_token_commits_once(table, executor, keys, caplog):
    table.new_write_builder().write(rows(0, 6, 1), executor)
    builder = table.new_write_builder()
    context = builder.prepare()
    keys.end_after(2)
    result = executor.map_rows(context, rows(3, 9, 2))
    assert keys.faults.fired
    assert any("runs again" in record.message for record in caplog.records)
    snapshot = builder.commit(result.messages)
    assert (snapshot.id, snapshot.delta_record_count, snapshot.changelog_record_count) == (2, 6, 6)
    assert read_values(table) == {n: 1 if n < 3 else 2 for n in range(9)}
    assert "secret-of-all-keys" not in caplog.text


def test_operations_outlive_their_token(table, executor, keys, spark):
    for value in (1, 2, 3):
        keys.end_after(2)
        table.new_write_builder().write(rows(0, 6 * value, value), executor)
    assert read_values(table) == dict.fromkeys(range(18), 3)
    keys.end_after(2)
    table.new_compaction_builder().with_strategy("full").run(executor)
    keys.end_after(2)
    change = table.new_row_change_builder()
    assert change.update({"value": parse_expression("value * 10")}, "id < 3", executor)
    keys.end_after(2)
    source = spark.createDataFrame(rows(2, 4, 7))
    merge.merge_dataframe(table, source, on=["id"])
    expected = {n: 30 if n < 2 else 7 if n < 4 else 3 for n in range(18)}
    plan = table.new_read_builder().plan()
    keys.end_after(2)
    assert executor.count_rows(plan.context, plan.splits) == 18
    keys.end_after(2)
    batches = executor.map_splits(plan.context, plan.splits)
    got = [row for batch in batches for row in batch.to_pylist()]
    assert {row["id"]: row["value"] for row in got} == expected
    assert len(got) == 18
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, 7))
    assert len(keys.faults.fired) >= 8


def test_each_batch_of_stream_has_token_of_its_own(spark, catalog, keys, name, world, tmp_path):
    names = [f"{name}_{role}" for role in ("source", "sink", "format")]
    sink, by_format = [catalog.create_table(n, Schema.of({"id": "INT"})) for n in names[1:]]
    source = world[3].create_table(names[0], Schema.of({"id": "INT"}))  # by the server's own key
    served = {"metastore": "rest", "uri": world[0], "token": TOKEN}
    writers = (
        lambda writer: writer.foreachBatch(streaming.streaming_sink(sink)),
        lambda writer: writer.format("paimon_assets").options(**served, table=names[2]),
    )[: 1 if spark.version < "4.1" else 2]  # the format's streams begin with Spark 4.1
    read = spark.readStream.format("paimon_assets").options(**served, table=names[0])
    queries = [
        write(read.load().writeStream)
        .option("checkpointLocation", str(tmp_path / str(number)))
        .start()
        for number, write in enumerate(writers)
    ]
    try:
        for number in range(2):
            keys.end_after(0)
            row = pa.table({"id": pa.array([number], pa.int32())})
            source.new_write_builder().write(row, EmbeddedExecutor())
            for query in queries:
                query.processAllAvailable()
            assert keys.faults.fired
            keys.faults.fired.clear()
    finally:
        for query in queries:
            query.stop()
    for target in (sink, by_format)[: len(writers)]:
        assert sorted(target.new_read_builder().to_arrow()["id"].to_pylist()) == [0, 1]
        assert [snapshot.commit_identifier for snapshot in target.snapshots()] == [0, 1]


def test_workers_report_expired_token(table, keys, spark):
    table.new_write_builder().write(rows(0, 1, 1), EmbeddedExecutor())
    look = preflight.storage_look(table.state.file_io.spec, table.path)
    keys.end_after(0)
    with pytest.raises(StorageError) as refused:
        preflight._ask(spark, look)
    assert refused.value.kind == ACCESS_DENIED


def test_write_with_expired_token_is_run_again(table, executor, clock, world, caplog):
    clock.late = MANY
    table = open_rest(world).get_table(table.name)
    builder = table.new_write_builder()
    context = builder.prepare()
    clock.late = 1
    result = executor.map_rows(context, rows(0, 6, 1))
    assert [record for record in caplog.records if "runs again" in record.message]
    assert builder.commit(result.messages).id == 1
    assert read_values(table) == dict.fromkeys(range(6), 1)


def test_late_dataframe_is_refused_and_planned_again(table, executor, clock, catalog, world):
    table.new_write_builder().write(rows(0, 6, 1), EmbeddedExecutor())
    clock.late = MANY
    table = open_rest(world).get_table(table.name)
    plan = table.new_read_builder().plan()
    waiting = executor.to_dataframe(plan.context, plan.splits)
    clock.late = 0
    target = catalog.create_table(f"{table.name}_copy", SCHEMA)
    with pytest.raises(StorageError) as ended:
        target.new_write_builder().write(waiting, executor)
    assert ended.value.kind == "token-expired"
    assert target.latest_snapshot() is None
    again = executor.to_dataframe(plan.context, plan.splits)
    target.new_write_builder().write(again, executor)
    assert read_values(target) == read_values(table) == dict.fromkeys(range(6), 1)


def test_storage_refusing_tokens_is_not_retried_forever(table, executor, keys):
    context = table.new_write_builder().prepare()
    keys.end_after(0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(StorageError) as refused:
        executor.map_rows(context, rows(0, 3, 1))
    assert refused.value.kind == ACCESS_DENIED
    assert table.latest_snapshot() is None


@pytest.mark.parametrize(
    ("kind", "keys_are_new", "runs"),
    [
        (ACCESS_DENIED, False, 1),
        (ACCESS_DENIED, True, 2),
        (TOKEN_EXPIRED, False, 2),
        ("other", True, 1),
    ],
)
def test_job_is_run_again_once_with_setting(kind, keys_are_new, runs):
    clock, asked, ran = FarClock(), [], []

    def ask():
        asked.append(clock.now_millis())
        key = f"k{len(asked)}" if keys_are_new else "k"
        return TokenResponse(token={"s3.access-key": key}, expires_at_millis=asked[-1] + 1)

    def run(spec):
        ran.append(spec)
        raise StorageError("it ended", kind=kind)

    storage = RenewedFileIO(TableStorage("s3://bucket/t", {}, ask, clock).open)
    with pytest.raises(StorageError, match="it ended"):
        with_renewal(storage.spec, run)
    assert len(ran) == runs


def test_tasks_get_only_key_of_their_table(table, executor):
    plan = table.new_read_builder().plan()
    shown = repr(executors.dump(plan.context))
    shown += repr(executors.dump(table.new_write_builder().prepare()))
    assert "secret-of-all-keys" in shown  # of the table
    assert TOKEN not in shown
