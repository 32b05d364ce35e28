"""Change logs in topics on Spark: its tasks read and fold a range each; tables are as embedded."""

import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import fastavro
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from paimon_assets.assets import PaimonCatalogResource, PaimonSparkResource
from paimon_assets.cdc import ChangeLog, KafkaSource, TopicLogConfig, build_change_log_asset
from paimon_assets.cdc.assets import change_log_asset
from paimon_assets.cdc.assets.change_log_run import ChangeLogRun
from paimon_assets.cdc.assets.topic_intake import TopicIntake
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.change_logs import GONE, debezium, with_types
from tests.cdc.kit.kafka_broker import Broker
from tests.cdc.kit.schema_registry import USER, RegistryServer
from tests.testkit.asset_tables import failure_text, metadata_of, run
from tests.testkit.effort import often

pytestmark = pytest.mark.spark
PARTITIONS = 2
KEY = dg.AssetKey(["shop", "orders"])
ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING", "note": "STRING"},
    primary_keys=["id"],
    options={"bucket": "2"},
)
BY_TASKS, HERE = "of Spark read the records", "all by itself"


@pytest.fixture
def lakes(tmp_path: Path, spark: SparkSession) -> dict[str, PaimonCatalogResource]:
    assert spark.range(1).count() == 1
    on_spark = PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    return {
        kind: PaimonCatalogResource(warehouse=str(tmp_path / kind), executor=kind, spark=on_spark)
        for kind in ("embedded", "spark")
    }


def orders(broker: Broker, topic: str, log: ChangeLog | None = None, **fields: Any) -> Any:
    policy = fields.pop("schema_policy", "add")
    schema = fields.pop("schema", ORDERS)
    source = KafkaSource(
        bootstrap=broker.address,
        topic=topic,
        timeout_seconds=20,
        **{"format": "debezium-json", **fields},
    )
    return build_change_log_asset(
        "shop.orders", schema, source=source, log=log, schema_policy=policy
    )


def run_log(
    asset: dg.AssetsDefinition, paimon: PaimonCatalogResource, **config: Any
) -> tuple[dict[str, Any], str]:
    """Run an asset; return its metadata, and the log line about the reader of the records."""
    ops = {"shop__orders": TopicLogConfig(**config)}
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(asset, paimon, instance=instance, run_config=dg.RunConfig(ops=ops))
        assert result.success, failure_text(result)
        lines = [each.message for each in instance.all_logs(result.run_id)]
    found = [text for text in (BY_TASKS, HERE) if any(text in line for line in lines)]
    return metadata_of(result, KEY), "".join(found)


def rows_of(paimon: PaimonCatalogResource) -> list[dict[str, Any]]:
    rows = paimon.catalog().get_table("shop.orders").to_arrow()
    return sorted(
        (
            {name: value for name, value in row.items() if name not in ("_position", "_op")}
            for row in rows.to_pylist()
        ),
        key=lambda row: row["id"],
    )


def same(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Check that two runs have the same metadata."""
    for name in ("changes_in", "inserts", "updates", "deletes", "lag_records", "dead_letters",
                 "newest_change", "keys_looked_up"):  # fmt: skip
        assert left.get(f"paimon/{name}") == right.get(f"paimon/{name}"), name


class Source:
    """A table in a database, whose changes go to a topic."""

    def __init__(self, broker: Broker, draw: random.Random) -> None:
        self.broker, self.draw = broker, draw
        self.topic = broker.create(PARTITIONS)
        self.rows: dict[int, dict[str, Any]] = {}
        self.columns = ["state", "note"]
        self.lsn = 0

    def _send(self, key: int, op: str | None, **values: Any) -> None:
        self.lsn += 1
        value = None if op is None else json.loads(debezium(op, self.lsn, id=key, **values))
        self.broker.send(self.topic, ({"id": key}, value), partition=key % PARTITIONS)

    def _delete(self, key: int) -> None:
        self._send(key, "d")
        if self.draw.random() < 0.8:
            self._send(key, None)
        del self.rows[key]

    def change(self) -> None:
        """Insert, update with some values, delete, or change the key of a row."""
        draw, key = self.draw, self.draw.randrange(8)
        values = {name: draw.choice([None, "a", "b", "long"]) for name in self.columns}
        held = self.rows.get(key)
        if held is None:
            self._send(key, draw.choice("cr"), **values)
        elif draw.random() < 0.2:
            self._delete(key)
            return
        elif draw.random() < 0.2:
            self._delete(key)
            key = key + 8
            self._send(key, "c", **values)
        else:
            kept = {n for n in self.columns if n in held and draw.random() < 0.4}
            values |= {name: held[name] for name in kept}
            sent = {name: GONE if name in kept else value for name, value in values.items()}
            if draw.random() < 0.2:
                for name in kept:
                    del sent[name]
            self._send(key, "u", **sent)
        self.rows[key] = {**values}


@pytest.mark.parametrize("seed", range(often(2)))
def test_any_history_makes_same_table_on_spark(
    seed: int, broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    """Values that did not arrive, deletes with tombstones, new keys, a column added half-way."""
    source = Source(broker, random.Random(seed))  # noqa: S311
    asset = orders(broker, source.topic, log=ChangeLog(dead_letters="shop.bad"))
    for step in range(4):
        for _ in range(15):
            source.change()
        if step == 1:
            source.columns.append("carrier")
            broker.send(source.topic, ({"id": 1}, "no record"))
        if step == 2:
            source.change()
        most = source.draw.choice([0, 12])
        results = {kind: run_log(asset, lake, max_records=most) for kind, lake in lakes.items()}
        assert [by for _, by in results.values()] == ["", BY_TASKS]
        same(results["embedded"][0], results["spark"][0])
    while run_log(asset, lakes["embedded"])[0]["paimon/lag_records"]:
        pass
    run_log(asset, lakes["spark"])
    expected = [{"id": key, "carrier": None, **row} for key, row in sorted(source.rows.items())]
    for lake in lakes.values():
        assert rows_of(lake) == expected
    letters = [lake.catalog().get_table("shop.bad").to_arrow() for lake in lakes.values()]
    assert [len(each) for each in letters] == [1, 1]


def compare(
    asset: dg.AssetsDefinition,
    lakes: dict[str, PaimonCatalogResource],
    by: str = BY_TASKS,
    **config: Any,
) -> list[dict[str, Any]]:
    """Run an asset in both ways; return the rows, which are the same."""
    results = {kind: run_log(asset, lake, **config) for kind, lake in lakes.items()}
    assert results["spark"][1] == by
    same(results["embedded"][0], results["spark"][0])
    tables = [
        lake.catalog().get_table("shop.orders").to_arrow().to_pylist() for lake in lakes.values()
    ]
    for row in (row for rows in tables for row in rows):
        del row["_position"]  # each task counts its own
    left, right = (sorted(rows, key=str) for rows in tables)
    assert left == right
    return left


def test_rows_by_key_make_same_table_on_spark(
    broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    """Records of `json` name no table that they come from."""
    topic = broker.create(PARTITIONS)
    asset = orders(broker, topic, format="json")
    for key, state in ((1, "new"), (2, "new"), (1, "paid"), (3, None), (2, None)):
        value = state and {"id": key, "state": state}
        broker.send(topic, ({"id": key}, value), partition=key % PARTITIONS)
    [row] = compare(asset, lakes)
    assert (row["id"], row["state"]) == (1, "paid")


CHOICES: dict[str, tuple[dict[str, Any], Schema]] = {
    "columns": (
        {
            "omitted": ["card"], "renamed": {"note": "remark"}, "hashed": ["mail"], "salt": "s",
            "computed": {"start": "substring(state, 0, 1)"},
            "metadata": {"changed": "op_time", "at": "offset", "part": "partition"},
        },
        Schema.of({"id": "BIGINT", "state": "STRING", "remark": "STRING"}, primary_keys=["id"]),
    ),
    "marks": ({"soft_deletes": "gone"}, ORDERS),
    "history": ({"history": True}, Schema.of({"id": "BIGINT", "state": "STRING"})),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_choices_of_log_make_same_table_on_spark(
    name: str, broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    """Also with a reload, a limit of bytes, and columns of Debezium's schema."""
    choices, schema = CHOICES[name]
    topic, lsn = broker.create(PARTITIONS), 0
    asset = orders(broker, topic, log=ChangeLog(**choices), schema=schema)
    types = dict.fromkeys(("state", "note", "mail", "card"), "string") | {"id": "int64"}

    def send(op: str, key: int, **values: Any) -> None:
        nonlocal lsn
        lsn += 1
        record = json.loads(with_types(debezium(op, lsn, id=key, **values), **types))
        broker.send(topic, ({"id": key}, record), partition=key % PARTITIONS)

    for key in range(6):
        send("c", key, state=f"new {key}", note="long", mail=f"{key}@x", card="4711")
    rows = compare(asset, lakes)
    assert len(rows) == 6
    if name == "columns":
        assert not any(secret in str(rows) for secret in ("4711", "@x"))
    for key in range(3):
        send("u", key, state="paid", note=GONE, mail="other", card="0815")
    send("d", 5)
    rows = compare(asset, lakes)
    assert len(rows) == {"columns": 5, "marks": 6, "history": 10}[name]
    if name == "columns":
        assert {row["remark"] for row in rows} == {"long"}
    if name != "marks":
        assert len(compare(asset, lakes, reload=True)) == len(rows)
    send("u", 1, state="sent", note="x", mail="m", card="c")
    send("u", 2, state="sent", note="x", mail="m", card="c")
    send("u", 3, state="sent", note="x", mail="m", card="c")
    results, by = run_log(asset, lakes["spark"], max_bytes=2)
    assert (results["paimon/offsets_read"], by) == (2, BY_TASKS), "one of each partition"
    assert results["paimon/lag_records"] == 1
    run_log(asset, lakes["spark"])
    run_log(asset, lakes["embedded"])
    compare(asset, lakes, "")


def test_changes_of_whole_tables_are_read_by_this_process(
    broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    topic = broker.create(PARTITIONS)
    asset = orders(broker, topic, log=ChangeLog(on_truncate="empty"))

    def send(key: int, partition: int, *records: str) -> None:
        for record in records:
            broker.send(topic, ({"id": key}, json.loads(record)), partition=partition)

    send(1, 0, debezium("c", 1, id=1, state="a", note="b"), debezium("t", 2))
    send(2, 0, debezium("c", 3, id=2, state="a", note="b"))
    assert [row["id"] for row in compare(asset, lakes, HERE)] == [2]
    broker.grow(topic, PARTITIONS + 1)
    send(2, 2, debezium("u", 4, id=2, state="c", note=GONE))
    compare(asset, lakes, HERE, new_partitions=True)
    send(2, 2, debezium("u", 5, id=2, state="d", note=GONE))
    [row] = compare(asset, lakes)
    assert (row["state"], row["note"]) == ("d", "b")
    ordered = orders(broker, topic, order="record", log=ChangeLog(on_truncate="empty"))
    compare(ordered, lakes, HERE, reload=True)


def avro(registry: RegistryServer, record: dict[str, Any], *columns: str) -> bytes:
    """Return a record of Debezium in Confluent's Avro, and register its schema."""
    texts = ("connector", "name", "db", "schema", "table", "snapshot")
    kinds = dict.fromkeys(texts, "string") | dict.fromkeys(("lsn", "txId", "ts_ms"), "long")
    source = [{"name": name, "type": kind} for name, kind in kinds.items()]
    fields: list[Any] = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in columns]
    image = {"type": "record", "name": "Value", "fields": fields}
    schema = {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", image], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
        {"name": "op", "type": "string"},
    ]}  # fmt: skip
    number = len(columns)
    registry.schemas[number] = {"schema": json.dumps(schema)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_schemas_of_avro_change_inside_range(
    broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    """A registry that refuses, or does not know the schema of one range, leaves all as it was."""
    topic, producer = broker.create(PARTITIONS), broker.producer()
    with RegistryServer({}, has_user=True).running() as registry:
        user = "schema.registry.basic.auth.user.info"
        options = {"schema.registry.url": registry.uri, user: USER}
        fields: dict[str, Any] = {"log": ChangeLog(dead_letters="shop.bad")}
        fields |= {"format": "debezium-avro", "schema_policy": "add"}
        asset = orders(broker, topic, options=options, **fields)
        denied = orders(broker, topic, options={**options, user: "reader:hush"}, **fields)
        source = KafkaSource(
            bootstrap=broker.address, topic=topic, format="debezium-avro", options=options
        )
        assert USER not in repr(source.changes())

        def send(op: str, key: int, lsn: int, **values: Any) -> None:
            record = json.loads(debezium(op, lsn, id=key, **values))
            value = avro(registry, record, *values)
            producer.produce(topic, value=value, partition=key % PARTITIONS)

        for key in range(4):
            send("c", key, key, state="new", note="long")
        producer.produce(topic, value=b"no avro", partition=1)
        producer.flush()
        assert len(compare(asset, lakes)) == 4
        assert registry.asked == ["/schemas/ids/2"] * (1 + PARTITIONS), "once, or once a task"
        send("u", 0, 10, state="paid", note=GONE)
        send("u", 1, 11, state="paid", note=GONE)
        send("u", 1, 12, state="sent", note=GONE, carrier="y")
        producer.flush()
        held = registry.schemas.pop(3)
        for other, text in ((asset, "has no schema 3"), (denied, "does not show schema")):
            results = failure_text(run(other, lakes["spark"]))
            assert text in results.splitlines()[0]
            assert "hush" not in results
        registry.schemas[3] = held
        registry.asked.clear()
        rows = compare(asset, lakes)
        assert registry.asked.count("/schemas/ids/3") == 1 + 2, "once; of Spark's tasks one, twice"
        assert {row["note"] for row in rows} == {"long"}
        assert [row["id"] for row in rows if row["carrier"] == "y"] == [1]
        for lake in lakes.values():
            assert len(lake.catalog().get_table("shop.orders").snapshots()) == 2
            assert len(lake.catalog().get_table("shop.bad").to_arrow()) == 1


class LosingRun(ChangeLogRun):
    """Spark loses the rows that it keeps; something happens before it reads them again."""

    meanwhile: ClassVar[list[Callable[[], object]]] = []

    @contextmanager
    def topic_ranges(self, intake: TopicIntake, read: Any) -> Iterator[Any]:
        before = CloudPickleSerializer().dumps(read)
        with super().topic_ranges(intake, read) as found:
            while self.meanwhile:
                found.kept.unpersist(blocking=True)
                self.meanwhile.pop()()
            yield found
        assert CloudPickleSerializer().dumps(read) == before, "Connect would read again"


def test_rows_lost_by_spark_are_read_again(
    broker: Broker, lakes: dict[str, PaimonCatalogResource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction of the topic in between would change the rows within the limit of bytes."""
    topic = broker.create(1, **{"segment.ms": "50", "min.cleanable.dirty.ratio": "0.001"})
    lake = lakes["spark"]
    monkeypatch.setattr(change_log_asset, "ChangeLogRun", LosingRun)
    schema = Schema.of({"id": "BIGINT", "state": "STRING"})
    asset = orders(broker, topic, log=ChangeLog(history=True), format="json", schema=schema)

    def send(*states: tuple[int, str]) -> None:
        records = [({"id": key}, {"id": key, "state": state}) for key, state in states]
        broker.send(topic, *records)

    send((3, "0"), (1, "a"))
    LosingRun.meanwhile.append(list)
    assert run_log(asset, lake)[1] == BY_TASKS
    send((3, "a"), (4, "b"), (3, "c"), (5, "d"), (6, "e"))
    other = ({"id": 9}, {"id": 9, "state": "z"})
    LosingRun.meanwhile.append(lambda: broker.compact(topic, other))
    with dg.DagsterInstance.ephemeral() as instance:
        config = dg.RunConfig(ops={"shop__orders": TopicLogConfig(max_bytes=90)})
        result = run(asset, lake, instance=instance, run_config=config)
        assert result.success, failure_text(result)
        assert any("have changed: the" in str(each) for each in instance.all_logs(result.run_id))
    run_log(asset, lake)
    rows = [(row["id"], row["state"]) for row in rows_of(lake) if row["id"] != 9]
    assert sorted(rows) == [(1, "a"), (3, "0"), (3, "c"), (4, "b"), (5, "d"), (6, "e")]


def test_refusals_are_same_on_spark(
    broker: Broker, lakes: dict[str, PaimonCatalogResource]
) -> None:
    topic = broker.create(PARTITIONS)
    texts = []
    number = Schema.of({"id": "BIGINT", "state": "INT"}, primary_keys=["id"])
    for records, schema in (
        ([debezium("u", 1, id=1, state="1", note=GONE)], ORDERS),
        ([debezium("u", 2, id=1, state="x" * 9)], number),
        ([debezium("c", 3, id=1, state="1", note="b"), "no record"], ORDERS),
        ([debezium("c", 4, id=1, state="1"), debezium("c", 4, "planes", id=1, state="1")], ORDERS),
        ([with_types(debezium("c", 5, id=1, state="1"), id="int64", other="int32")], ORDERS),
    ):
        topic = broker.create(PARTITIONS)
        for record in records:
            value = json.loads(record) if record != "no record" else record
            broker.send(topic, ({"id": 1}, value), partition=0)
        asset = orders(broker, topic, schema=schema, schema_policy="error")
        results = [run(asset, lake) for lake in lakes.values()]
        assert not any(result.success for result in results), records
        texts.append([failure_text(result).splitlines()[0] for result in results])
    assert [left for left, _ in texts] == [right for _, right in texts]
