"""Topics of a real Kafka: each record once, in order; lost positions and recreated topics."""

import datetime as dt
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread, Timer
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from paimon_assets import InvalidInputError, Schema, StorageError, cdc
from paimon_assets.assets import (
    PaimonCatalogResource,
    PaimonSparkResource,
    build_file_ingestion_asset,
)
from paimon_assets.cdc.kafka import topics
from paimon_assets.cdc.kafka.topics import library
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.cdc.kit.change_logs import GONE, debezium
from tests.cdc.kit.fault_topics import follow, follow_until_killed, follow_until_terminated
from tests.cdc.kit.kafka_broker import LAKE_USER, PASSWORD, Broker, running_broker, send_all
from tests.cdc.kit.topic_world import World
from tests.testkit.asset_tables import catalog_on, failure_text, metadata_of, run
from tests.testkit.effort import is_hunt, often
from tests.testkit.faults.writers import DEATHS, SURVIVED, exit_code
from tests.testkit.faulty_fileio import Fault, FaultyFileIO

NO_FILE = {"ssl.ca.location": "/nowhere.pem"}
KEY = dg.AssetKey(["shop", "orders"])
ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)
LOG = Schema.of({"id": "BIGINT", "state": "STRING"})


def source(broker: Broker, topic: str, **fields: Any) -> cdc.KafkaSource:
    return cdc.KafkaSource(bootstrap=broker.address, topic=topic, timeout_seconds=20, **fields)


def lake(path: Path) -> PaimonCatalogResource:
    return PaimonCatalogResource(warehouse=str(path), executor="embedded")


def table_of(
    broker: Broker, topic: str, log: cdc.ChangeLog | None = None, **fields: Any
) -> dg.AssetsDefinition:
    """Return a table of the newest row of each key."""
    return cdc.build_change_log_asset(
        "shop.orders", ORDERS, source=source(broker, topic, **fields), log=log
    )


def rows_in(broker: Broker, topic: str, schema: Schema = LOG, **fields: Any) -> dg.AssetsDefinition:
    """Return a table of a row for each record."""
    return build_file_ingestion_asset("shop.orders", schema, source=source(broker, topic, **fields))


def ok(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource, **config: Any) -> dict[str, Any]:
    result = run(asset, paimon, run_config=config_of(asset, **config))
    assert result.success, failure_text(result)
    return metadata_of(result, asset.key)


def refusal(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource, **config: Any) -> str:
    result = run(asset, paimon, run_config=config_of(asset, **config))
    assert not result.success
    return failure_text(result)


def config_of(asset: dg.AssetsDefinition, **fields: Any) -> dg.RunConfig:
    is_log = "Changes" in next(iter(asset.descriptions_by_key.values()))
    made = cdc.TopicLogConfig(**fields) if is_log else cdc.TopicConfig(**fields)
    return dg.RunConfig(ops={asset.node_def.name: made})


def states(paimon: PaimonCatalogResource) -> dict[int, str]:
    rows = paimon.catalog().get_table("shop.orders").to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["state"] for row in rows}


def ids(paimon: PaimonCatalogResource) -> list[int]:
    found: Any = paimon.catalog().get_table("shop.orders").to_arrow()["id"].to_pylist()
    return sorted(found)


def numbered_rows(*numbers: int, state: str = "new") -> list[tuple[dict[str, int], dict[str, Any]]]:
    return [({"id": number}, {"id": number, "state": state}) for number in numbers]


def test_each_record_is_row_once_with_its_position(
    broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic = broker.create(2)
    schema = Schema.of({
        "id": "BIGINT", "state": "STRING", "part": "INT", "at": "BIGINT", "key": "STRING",
        "sent": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "headers": "STRING", "topic": "STRING",
    })  # fmt: skip
    columns = {name: name for name in ("key", "headers", "topic")}
    columns |= {"part": "partition", "at": "offset", "sent": "timestamp"}
    asset = rows_in(broker, topic, schema, metadata=columns)
    began = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    broker.send(topic, *numbered_rows(1, 2), ({"id": 9}, None), partition=0)
    sent = time.time()
    producer = broker.producer()
    producer.produce(
        topic, value=b'{"id":\n 3}', partition=1, headers=[("a", b"x"), ("a", b"y"), ("b", None)]
    )
    producer.flush()
    waited = time.time() - sent
    shown = ok(asset, paimon)
    assert (shown["paimon/rows_in"], shown["paimon/offsets_read"]) == (3, 4)
    assert (shown["paimon/lag_records"], shown["paimon/lag_seconds"]) == (0, 0)
    assert waited < shown["paimon/delay_seconds"] < time.time() - began.timestamp()
    assert shown["paimon/records_without_value"] == 1
    rows = paimon.catalog().get_table("shop.orders").to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["state"], row["part"], row["at"]) for row in rows] == [
        (1, "new", 0, 0),
        (2, "new", 0, 1),
        (3, None, 1, 0),
    ]
    assert [row["key"] for row in rows] == ['{"id": 1}', '{"id": 2}', None]
    assert rows[2]["headers"] == '[["a", "x"], ["a", "y"], ["b", null]]'
    assert all(row["topic"] == topic and row["sent"] > began for row in rows)
    assert ok(asset, paimon)["paimon/rows_in"] == 0
    snapshot = paimon.catalog().get_table("shop.orders").latest_snapshot()
    assert snapshot is not None
    assert snapshot.id == 1
    broker.send(topic, *numbered_rows(4), partition=1)
    assert ok(asset, paimon)["paimon/rows_in"] == 1
    assert ids(paimon) == [1, 2, 3, 4]


def test_compacted_topic_is_table(broker: Broker, paimon: PaimonCatalogResource) -> None:
    topic = broker.create(3, **{"cleanup.policy": "compact"})
    broker.send(topic, *numbered_rows(*range(20)), *numbered_rows(*range(10), state="paid"))
    broker.send(topic, ({"id": 3}, None), ({"id": 15}, None))
    producer = broker.producer()
    producer.produce(
        topic, key=b"\xff", value=b'{"id": 20, "state": "new"}'
    )  # a key that is no text
    producer.flush()
    log = cdc.ChangeLog(metadata={"at": "offset", "part": "partition"})
    asset = table_of(broker, topic, log=log)
    shown = ok(asset, paimon)
    assert (shown["paimon/deletes"], shown["paimon/lag_records"]) == (2, 0)
    wanted = {n: "paid" if n < 10 else "new" for n in range(21) if n not in (3, 15)}
    assert states(paimon) == wanted
    broker.send(topic, *numbered_rows(3, state="again"), ({"id": 0}, None))
    ok(asset, paimon)
    del wanted[0]
    assert states(paimon) == wanted | {3: "again"}
    row = paimon.catalog().get_table("shop.orders").to_arrow().to_pylist()[0]
    assert int(row["at"]) >= 0
    assert int(row["part"]) in range(3)


def test_debezium_records_of_one_table_are_applied(
    broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic = broker.create(1)
    asset = table_of(
        broker, topic, format="debezium-json", log=cdc.ChangeLog(source_table="public.orders")
    )

    def change(op: str, lsn: int, table: str = "orders", **values: Any) -> tuple[Any, Any]:
        return {"id": values["id"]}, json.loads(debezium(op, lsn, table, **values))

    broker.send(
        topic,
        change("c", 10, id=1, state="long"),
        change("c", 11, "planes", id=1, wings=2),
        change("c", 12, id=2, state="x"),
    )
    ok(asset, paimon)
    broker.send(topic, change("u", 20, id=1, state=GONE), change("d", 21, id=2), ({"id": 2}, None))
    shown = ok(asset, paimon)
    assert shown["paimon/keys_looked_up"] == 1
    assert shown["paimon/lag_seconds"] == 0, "behind the topic, not behind the database"
    assert states(paimon) == {1: "long"}
    # Offsets are the order: a new connector sends lower positions of another server.
    broker.send(topic, (None, json.loads(debezium("u", 5, name="other", id=1, state="newer"))))
    ok(asset, paimon)
    assert states(paimon) == {1: "newer"}


def test_run_is_bounded_by_records_or_bytes(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create(3)
    for partition, numbers in enumerate((range(3), range(10, 40), range(50, 70))):
        broker.send(topic, *numbered_rows(*numbers), partition=partition)
    everything = [*range(3), *range(10, 40), *range(50, 70)]
    for config in ({"max_records": 10}, {"max_bytes": 400}):
        paimon, asset = lake(tmp_path / str(config)), rows_in(broker, topic)
        lags = [53]
        while lags[-1]:
            shown = ok(asset, paimon, **config)
            assert 0 < shown["paimon/offsets_read"] <= (10 if "max_records" in config else 12)
            lags.append(shown["paimon/lag_records"])
            assert lags[-1] < lags[-2]
            assert (shown["paimon/lag_seconds"] > 0) == (lags[-1] > 0)
            assert len(ids(paimon)) == 53 - lags[-1]
        assert ids(paimon) == everything


@pytest.mark.spark
def test_spark_reads_each_range_in_task(
    broker: Broker, warehouse: str, spark: SparkSession
) -> None:
    assert spark.range(1).count() == 1
    on_spark = PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    paimon = PaimonCatalogResource(warehouse=warehouse, executor="spark", spark=on_spark)
    topic = broker.create(2)
    schema = Schema.of(
        {"id": "BIGINT", "state": "STRING", "at": "BIGINT"},
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    asset = rows_in(broker, topic, schema, metadata={"at": "offset"})
    broker.send(topic, *numbered_rows(*range(30)), *numbered_rows(1, state="newer"), partition=0)
    broker.send(topic, *numbered_rows(*range(50, 60)), ({"id": 1}, None), partition=1)
    shown = ok(asset, paimon, max_records=20)
    assert shown["paimon/lag_records"] == 42 - 20
    while ok(asset, paimon, max_records=20)["paimon/lag_records"]:
        pass
    assert ids(paimon) == [*range(30), *range(50, 60)]
    assert states(paimon)[1] == "newer"


@pytest.mark.parametrize("executor", ["embedded", "spark"])
@pytest.mark.way_out("kafka-record")
def test_undeclared_members_are_added_or_left_out(
    broker: Broker, warehouse: str, spark: SparkSession, executor: Any
) -> None:
    assert spark.range(1).count() == 1
    on_spark = PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    paimon = PaimonCatalogResource(warehouse=warehouse, executor=executor, spark=on_spark)
    topic, schema = broker.create(1), Schema.of({"id": "BIGINT", "state": "STRING"})
    broker.send(topic, *((None, {"id": n, "n": n, "note": None}) for n in (1, 2)))
    text = refusal(rows_in(broker, topic, schema), paimon)
    assert "KafkaSource(extra_columns='add' or 'ignore')" in text
    ok(rows_in(broker, topic, schema, extra_columns="ignore"), paimon, max_records=1)
    adding = rows_in(broker, topic, schema, extra_columns="add")
    ok(adding, paimon)
    broker.send(topic, (None, {"id": 3, "state": "x", "more": {"a": 1}}), (None, {"note": "b"}))
    ok(adding, paimon)
    table = paimon.catalog().get_table("shop.orders")
    types = {each.name: str(each.type) for each in table.schema.fields if each.name != "id"}
    assert types == {"state": "STRING", "n": "BIGINT", "note": "STRING", "more": "STRING"}
    rows = [
        (r["id"], r["state"], r["n"], r["note"], r["more"]) for r in table.to_arrow().to_pylist()
    ]
    assert rows == [
        (1, None, None, None, None),
        (2, None, 2, None, None),
        (3, "x", None, None, '{"a": 1}'),
        (None, None, None, "b", None),
    ]


@pytest.mark.parametrize("start", ["latest", "time", "offset"])
def test_table_starts_at_given_position(
    start: str, broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic = broker.create(2)
    producer = broker.producer()
    for number in range(4):
        stamp = 1_700_000_000_000 + number * 1000
        producer.produce(topic, value=f'{{"id": {number}}}', partition=0, timestamp=stamp)
    producer.flush()
    time = dt.datetime.fromtimestamp(1_700_000_002, tz=dt.UTC)
    at: Any = {"latest": "latest", "time": time, "offset": {0: 3}}[start]
    asset = rows_in(broker, topic, start=at)
    ok(asset, paimon)
    wanted = {"latest": [], "time": [2, 3], "offset": [3]}[start]
    assert ids(paimon) == wanted
    broker.send(topic, *numbered_rows(7), partition=1)
    ok(asset, paimon)
    assert ids(paimon) == [*wanted, 7]


def test_open_and_aborted_transactions_are_not_read(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create(1)
    paimon, dirty = lake(tmp_path / "committed"), lake(tmp_path / "dirty")
    asset = rows_in(broker, topic)
    producer = broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    for number, outcome in enumerate(("commit", "abort", "commit", "abort")):
        producer.begin_transaction()
        send_all(producer, topic, numbered_rows(number))
        producer.flush()
        (producer.commit_transaction if outcome == "commit" else producer.abort_transaction)()
    producer.begin_transaction()
    send_all(producer, topic, numbered_rows(10))
    producer.flush()
    ok(asset, paimon)
    assert ids(paimon) == [0, 2]
    ok(rows_in(broker, topic, options={"isolation.level": "read_uncommitted"}), dirty)
    assert ids(dirty) == [0, 1, 2, 3, 10]
    producer.commit_transaction()
    ok(asset, paimon)
    assert ids(paimon) == [0, 2, 10]
    ok(asset, paimon)  # the mark of the transaction's end is an offset without a record
    assert ok(asset, paimon)["paimon/lag_records"] == 0
    assert ids(paimon) == [0, 2, 10]


def test_recreated_topic_is_refused(broker: Broker, paimon: PaimonCatalogResource) -> None:
    topic = broker.create(1)
    asset = rows_in(broker, topic)
    broker.send(topic, *numbered_rows(1, 2))
    ok(asset, paimon)
    broker.delete(topic)
    broker.create(1, topic=topic)
    broker.send(topic, *numbered_rows(5, 6, 7))
    text = refusal(asset, paimon)
    assert "was deleted and made again" in text
    assert f"{topic}[0]" in text
    assert ids(paimon) == [1, 2]
    ok(asset, paimon, lost_position="earliest")
    assert ids(paimon) == [1, 2, 5, 6, 7]
    ok(asset, paimon)
    assert ids(paimon) == [1, 2, 5, 6, 7]


@pytest.mark.way_out("kafka-topic")
def test_missing_topic_is_named(broker: Broker, paimon: PaimonCatalogResource) -> None:
    assert "has no topic 'missing'" in refusal(rows_in(broker, "missing"), paimon)
    ok(rows_in(broker, broker.create()), paimon)


@pytest.mark.way_out("kafka-position")
def test_retention_past_position_is_refused(broker: Broker, paimon: PaimonCatalogResource) -> None:
    topic = broker.create(2)
    asset = table_of(broker, topic)
    broker.send(topic, *numbered_rows(1), partition=0)
    broker.send(topic, *numbered_rows(2), partition=1)
    ok(asset, paimon)
    broker.send(topic, *numbered_rows(3, 4, 5), partition=0)
    broker.send(topic, *numbered_rows(6), partition=1)
    broker.expire(topic, 0, 3)
    text = refusal(asset, paimon)
    assert f"{topic}[0] at offset 1: its first record is 3" in text
    assert "lost_position" in text
    assert sorted(states(paimon)) == [1, 2]
    ok(asset, paimon, lost_position="earliest")
    assert sorted(states(paimon)) == [1, 2, 5, 6]
    ok(asset, paimon, reload=True)
    assert sorted(states(paimon)) == [2, 5, 6]


@pytest.mark.way_out("kafka-partitions")
def test_added_partitions_are_read_if_order_allows(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create(1)
    table, ordered = lake(tmp_path / "table"), lake(tmp_path / "ordered")
    keyed = table_of(broker, topic, format="debezium-json")
    by_record = table_of(broker, topic, format="debezium-json", order="record")

    def send(lsn: int, state: str, partition: int) -> None:
        value = json.loads(debezium("u", lsn, id=1, state=state))
        broker.send(topic, ({"id": 1}, value), partition=partition)

    send(10, "first", 0)
    for asset, paimon in ((keyed, table), (by_record, ordered)):
        ok(asset, paimon)
    broker.grow(topic, 2)
    send(40, "newest", 1)
    send(30, "older", 0)
    text = refusal(keyed, table)
    assert "has new partitions (1)" in text
    assert "order='record'" in text
    ok(by_record, ordered)
    assert states(ordered) == {1: "newest"}
    ok(keyed, table, new_partitions=True)
    assert states(table) == {1: "newest"}, "partitions are read by number"
    send(50, "last", 1)
    ok(keyed, table)
    assert states(table) == {1: "last"}


def test_new_partitions_of_rows_are_read_from_their_beginning(
    broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic = broker.create(1)
    asset = rows_in(broker, topic, start="latest")
    broker.send(topic, *numbered_rows(1))
    ok(asset, paimon)
    broker.grow(topic, 3)
    broker.send(topic, *numbered_rows(2), partition=2)
    ok(asset, paimon)
    assert ids(paimon) == [2]


def test_topics_of_pattern_are_read(broker: Broker, paimon: PaimonCatalogResource) -> None:
    first = broker.create(1)
    second = broker.create(1, topic=f"{first}.b")
    log = cdc.KafkaSource(bootstrap=broker.address, pattern=f"{first}*")
    asset = build_file_ingestion_asset("shop.orders", LOG, source=log)
    broker.send(first, *numbered_rows(1))
    broker.send(second, *numbered_rows(2))
    ok(asset, paimon)
    third = broker.create(1, topic=f"{first}.c")
    broker.send(third, *numbered_rows(3))
    ok(asset, paimon)
    assert ids(paimon) == [1, 2, 3]


def test_unreadable_record_is_named_by_its_offset(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create(1)
    paimon, lenient, rows = (lake(tmp_path / name) for name in "abc")
    broker.send(topic, *numbered_rows(1), (None, "no object"), *numbered_rows(2))
    text = refusal(table_of(broker, topic), paimon)
    assert f"'{topic}[0]', offset 1: " in text
    assert "no object" in text
    producer = broker.producer()
    producer.produce(topic, value=b'null,"key":{"id":1}')  # beside the real key it would delete
    producer.flush()
    shown = ok(table_of(broker, topic, log=cdc.ChangeLog(dead_letters="shop.bad")), lenient)
    assert shown["paimon/dead_letters"] == 2
    letters = lenient.catalog().get_table("shop.bad").to_arrow().to_pylist()
    assert sorted((each["file"], each["line"]) for each in letters) == [
        (f"{topic}[0]", 1),
        (f"{topic}[0]", 3),
    ]
    assert sorted(states(lenient)) == [1, 2]
    text = refusal(rows_in(broker, topic), rows)
    assert f"'{topic}[0]', offset 1: " in text
    assert "KafkaSource(dead_letters='db.table')" in text
    asset = rows_in(broker, topic, dead_letters="shop.bad")
    assert ok(asset, rows)["paimon/dead_letters"] == 2
    assert ids(rows) == [1, 2]
    bad = rows.catalog().get_table("shop.bad").to_arrow().to_pylist()
    assert sorted(each["line"] for each in bad) == [1, 3]
    assert ok(asset, rows)["paimon/dead_letters"] == 0


SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": LAKE_USER}


def test_refused_logins_and_certificates_name_way_out(
    broker: Broker, paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, authority = broker.create(1), {"ssl.ca.location": str(broker.authority)}
    broker.send(topic, *numbered_rows(1))
    shown: list[str] = []

    def outcome(listener: str, protocol: str, password: str | None, **options: Any) -> str:
        if password is None:
            monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
        else:
            monkeypatch.setenv("KAFKA_PASSWORD", password)
        if protocol[:4] == "SASL":
            options = {**SCRAM, "sasl.password": dg.EnvVar("KAFKA_PASSWORD"), **options}
        log = cdc.KafkaSource(
            bootstrap=broker.addresses[listener],
            topic=topic,
            options={"security.protocol": protocol, **options},
        )
        asset = build_file_ingestion_asset(f"shop.l{len(shown)}", LOG, source=log)
        with dg.DagsterInstance.ephemeral() as instance:
            result = run(asset, paimon, instance=instance)
            text = failure_text(result) if not result.success else "read"
            logs = [repr(each) for each in instance.all_logs(result.run_id)]
            shown.extend([repr(log), text, *logs, repr(result.dagster_run)])
        return text

    assert outcome("SASL", "SASL_PLAINTEXT", PASSWORD) == "read"
    assert outcome("TLS", "SASL_SSL", PASSWORD, **authority) == "read"
    wrong = outcome("SASL", "SASL_PLAINTEXT", f"{PASSWORD}!")
    assert "due to invalid credentials" in wrong
    assert "correct the credentials" in wrong
    assert "'KAFKA_PASSWORD', which is not set" in outcome("SASL", "SASL_PLAINTEXT", None)
    for listener in ("TLS", "EXPIRED"):
        known = authority if listener == "EXPIRED" else {}
        text = outcome(listener, "SSL", None, **known)
        assert "certificate verify failed" in text
        assert "correct the certificates: the brokers', or 'ssl.ca.location'" in text
    assert "'ssl.ca.location' is not known, or" in outcome("TLS", "SSL", None, **NO_FILE)
    assert "'security.protocol'" in outcome("TLS", PASSWORD, None)
    assert PASSWORD not in "".join(shown)


@pytest.mark.way_out("kafka")
def test_restarted_broker_loses_nothing(broker: Broker, paimon: PaimonCatalogResource) -> None:
    topic = broker.create(2)
    asset = rows_in(broker, topic)
    broker.send(topic, *numbered_rows(*range(10)))
    ok(asset, paimon, max_records=4)
    broker.kill()
    hasty = cdc.KafkaSource(bootstrap=broker.address, topic=topic, timeout_seconds=1)
    text = refusal(build_file_ingestion_asset("shop.orders", LOG, source=hasty), paimon)
    assert f"Kafka at {broker.address} does not answer" in text
    assert "Nothing was committed; correct the address, or try again." in text
    broker.start()
    broker.await_partitions(topic, 2)
    ok(asset, paimon)
    assert ids(paimon) == [*range(10)]


def test_address_without_broker_is_named(
    paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_DOWN_SECONDS", 0)
    source = cdc.KafkaSource(bootstrap="127.0.0.1:1", topic="clicks", timeout_seconds=600)
    text = refusal(build_file_ingestion_asset("shop.orders", LOG, source=source), paimon)
    assert "Kafka at 127.0.0.1:1 does not answer for topic 'clicks'" in text
    assert "correct the address, or try again" in text


def test_broken_connection_does_not_end_partition() -> None:
    with running_broker() as mortal:
        topic, admin_module = mortal.create(1), library("confluent_kafka.admin")
        client = source(mortal, topic).client()
        admin, latest = client.open(admin_module.AdminClient, {}), admin_module.OffsetSpec.latest()
        mortal.send(topic, *numbered_rows(1))  # so long a new topic may have no leader
        assert client._offsets(admin, topic, [0], latest) == {0: 1}
        mortal.freeze()
        Timer(0.3, mortal.kill).start()
        with pytest.raises(StorageError, match="sends nothing more"):
            client._offsets(admin, topic, [0], latest)


def test_sensor_requests_run_when_table_lags(broker: Broker, paimon: PaimonCatalogResource) -> None:
    topic = broker.create(1)
    asset, log = rows_in(broker, topic), source(broker, topic)
    config = cdc.TopicConfig(follow_seconds=60)
    sensor = cdc.build_lag_sensor(asset, source=log, records=3, config=config)
    keys: list[str | None] = []
    with dg.DagsterInstance.ephemeral() as instance:

        def tick() -> Any:
            with dg.build_sensor_context(instance, resources={"paimon": paimon}) as context:
                return sensor(context)

        def add_requested_run(status: dg.DagsterRunStatus) -> dg.DagsterRun:
            """Add the requested run with a status."""
            [request] = tick().run_requests
            assert request.run_config["ops"]["shop__orders"]["config"]["follow_seconds"] == 60
            keys.append(request.run_key)
            run = dg.DagsterRun(job_name="orders", tags=request.tags, status=status)
            return instance.add_run(run)

        broker.send(topic, *numbered_rows(1, 2))
        assert "2 offsets behind" in (tick().skip_message)
        broker.send(topic, *numbered_rows(3))
        first = add_requested_run(dg.DagsterRunStatus.STARTED)
        assert "is under way" in tick().skip_message
        instance.report_run_canceled(first)
        assert "the next is due in" in tick().skip_message
        instance.delete_run(first.run_id)
        add_requested_run(dg.DagsterRunStatus.SUCCESS)
        add_requested_run(dg.DagsterRunStatus.SUCCESS)
        assert [key == keys[0] for key in keys] == [True, True, False], "one after each run"
        ok(asset, paimon)
        assert "0 offsets behind" in (tick().skip_message)
        broker.expire(topic, 0, 3)
        broker.delete(topic)
        broker.create(1, topic=topic)
        assert "made again" in (tick().skip_message)


def test_long_run_commits_every_few_seconds(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit is a materialization; a failed commit is logged and repeated."""
    now = 0.0  # by the clock of the run: it ends after some commits
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("paimon_assets.assets.files.ingestion.time", clock)
    topic, warehouse = broker.create(1), str(tmp_path / "lake")
    asset, sound = table_of(broker, topic), lake(tmp_path / "lake")
    broker.send(topic, *numbered_rows(1, 2))
    ok(asset, sound)
    broker.send(topic, *numbered_rows(3))
    storage = FaultyFileIO(LocalFileIO())
    unreliable = catalog_on(storage, warehouse)
    config = cdc.TopicLogConfig(follow_seconds=60, commit_seconds=0.2, reload=True)
    with dg.DagsterInstance.ephemeral() as instance:
        thread = Thread(
            target=run,
            args=(asset, unreliable),
            kwargs={"instance": instance, "run_config": dg.RunConfig(ops={"shop__orders": config})},
        )
        thread.start()
        for number in range(4, 400):
            if not thread.is_alive():
                break
            broker.send(topic, *numbered_rows(number))
            thread.join(0.3)
            done = len(instance.fetch_materializations(asset.key, limit=100).records)
            storage.fail_on = "manifest-*" if done else None  # once: a later commit fails
            now = 60.0 if storage.fired and done > 2 else 0.0
        [followed] = instance.get_runs()
        assert followed.is_success
        shown: Any = instance.fetch_materializations(asset.key, limit=100).records
        lines = [each.message for each in instance.all_logs(followed.run_id)]
    versions = [each.asset_materialization.tags["dagster/data_version"] for each in shown]
    read = [each.asset_materialization.metadata["paimon/offsets_read"].value for each in shown]
    assert len({*versions[1:]}) == len(versions[1:]) > 1
    assert versions[0] not in versions[1:] or not read[0], "the last time nothing may be new"
    assert read[-1] >= 3, "the reload reads all records"
    assert sum(read) < number, "and reads them once"
    assert any("The run continues in" in line for line in lines)
    ok(asset, sound)
    assert sorted(states(sound)) == [*range(1, number)]


def test_long_run_ends_when_it_is_terminated(broker: Broker, tmp_path: Path) -> None:
    topic, warehouse = broker.create(1), str(tmp_path / "lake")
    broker.send(topic, *numbered_rows(1, 2))
    assert exit_code(follow_until_terminated, warehouse, broker.address, topic) == 1
    paimon = lake(tmp_path / "lake")
    assert len(states(paimon)) > 2
    ok(table_of(broker, topic), paimon)
    _, end = broker.bounds(topic, 0)
    assert sorted(states(paimon)) == [1, 2, *range(10, 8 + end)]


def test_demo_follows_topic(broker: Broker, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jobs.demo.run", "--every=500", f"--kafka={broker.address}"],
        env={**os.environ, "PAIMON_DEMO_HOME": str(tmp_path), "PAIMON_EXECUTOR": "embedded"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every value right" in done.stdout
    assert ", 0 behind" in done.stdout


STRIDE = 3 if is_hunt() else 41
"""Calls between two kills."""


@pytest.mark.hunt
def test_killed_run_leaves_rows_before_or_after(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create(2)
    broker.send(topic, *numbered_rows(*range(6)))
    template = tmp_path / "template"
    assert follow(str(template), broker.address, topic)
    before = dict.fromkeys(range(6), "new")
    broker.send(topic, *numbered_rows(*range(3), state="paid"), ({"id": 5}, None))
    after = {n: "paid" if n < 3 else "new" for n in range(5)}
    codes = set()
    for steps in itertools.count(STRIDE // 2, STRIDE):
        warehouse = tmp_path / str(steps)
        shutil.copytree(template, warehouse)
        code = exit_code(
            follow_until_killed, str(warehouse), broker.address, topic, 1_000_000, steps
        )
        assert code in DEATHS
        codes.add(code)
        paimon = lake(warehouse)
        found = states(paimon)
        assert found in (before, after)
        shown = ok(table_of(broker, topic), paimon)
        assert shown["paimon/offsets_read"] == (0 if found == after else 4)
        assert states(paimon) == after
        if code == SURVIVED:
            break
    assert codes - {SURVIVED}, "no run was killed"


STEPS = (
    *("send", "send", "send", "run", "run", "run", "fault", "fault", "kill", "kill"),
    *("grow", "restart", "expire", "lose", "make_again"),
)


@pytest.mark.hunt
@pytest.mark.parametrize("seed", range(often(2)))
def test_any_history_makes_rows_of_model(seed: int, broker: Broker, tmp_path: Path) -> None:
    """Two tables follow one topic: rows by key, and a row of each record."""
    world = World(broker, broker.create(3), random.Random(seed))  # noqa: S311
    draw, warehouse = world.draw, str(tmp_path / "lake")
    keyed = table_of(broker, world.topic)
    every = build_file_ingestion_asset("shop.every", LOG, source=source(broker, world.topic))
    sound = lake(tmp_path / "lake")
    world.send()
    for asset in (keyed, every):
        ok(asset, sound)
    for _ in range(14):
        step = draw.choice(STEPS)
        asset = draw.choice([keyed, every])
        config: dict[str, Any] = {"max_records": draw.choice([5, 40, 0])}
        config["max_bytes"] = draw.choice([0, 300])
        if step == "send":
            world.send()
        elif step == "run":
            ok(asset, sound, **config)
        elif step == "fault":
            fault = draw.choice([Fault.FAIL, Fault.LOSE_ANSWER])
            storage = FaultyFileIO(LocalFileIO(), faults={draw.randrange(60): fault})
            run(asset, catalog_on(storage, warehouse), run_config=config_of(asset, **config))
        elif step == "kill":
            address, most = broker.address, draw.choice([7, 1_000])
            steps, seconds = draw.randrange(150), draw.choice([0, 2])
            exit_code(follow_until_killed, warehouse, address, world.topic, most, steps, seconds)
        elif step in ("expire", "lose", "make_again"):
            drain(keyed, sound)
            drain(every, sound)
            getattr(world, step)()
            for each in (keyed, every):
                run_without_lost_records(each, sound)
        elif step == "grow" and world.partitions == 3 and draw.random() < 0.3:
            drain(keyed, sound)
            world.partitions = 4
            broker.grow(world.topic, 4)
            ok(keyed, sound, new_partitions=True)
        elif step == "restart" and draw.random() < 0.2:
            broker.kill()
            broker.start()
            broker.await_partitions(world.topic, world.partitions)
    drain(keyed, sound)
    drain(every, sound)
    assert states(sound) == world.rows
    found: Any = sound.catalog().get_table("shop.every").to_arrow()["state"].to_pylist()
    assert sorted(found) == sorted(world.sent)


def run_without_lost_records(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource) -> None:
    """Run; if it is refused because records are lost, run without them."""
    result = run(asset, paimon)
    if not result.success:
        assert "cannot continue with partition" in failure_text(result)
        ok(asset, paimon, lost_position="earliest")


def drain(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource) -> None:
    assert ok(asset, paimon)["paimon/lag_records"] == 0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "a topic or a pattern"),
        ({"topic": "t", "pattern": "t"}, "a topic or a pattern"),
        ({"topic": "t", "format": "csv"}, "no format 'csv'"),
        ({"topic": "t", "order": "time"}, "order is 'time'"),
        ({"topic": "t", "start": "now"}, "start is 'now'"),
        ({"topic": "t", "start": dt.datetime(2024, 1, 1)}, "without a zone"),
        ({"topic": "t", "metadata": {"a": "lag"}}, "metadata of column 'a' is 'lag'"),
    ],
)
def test_invalid_source_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        cdc.KafkaSource(bootstrap="localhost:9092", **fields)
