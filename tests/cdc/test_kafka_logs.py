"""Change logs in topics of a real Kafka: Debezium's Avro, and all tables of a database."""

import base64
import json
import random
from typing import Any

from paimon_assets import cdc
from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.change_logs import debezium, with_types
from tests.cdc.kit.kafka_broker import Broker
from tests.cdc.kit.recorded_debezium import recorded_steps
from tests.cdc.kit.schema_registry import USER, RegistryServer
from tests.testkit.asset_tables import failure_text, run


def test_avro_of_real_debezium_makes_rows_of_database(
    broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic, (steps, schemas) = broker.create(1), recorded_steps()
    with RegistryServer(schemas, has_user=True).running() as server:
        options = {"schema.registry.url": server.uri, "schema.registry.basic.auth.user.info": USER}
        asset = cdc.build_change_log_asset(
            "shop.lines",
            Schema.of({"order_id": "BIGINT", "no": "INT"}, primary_keys=["order_id", "no"]),
            source=cdc.KafkaSource(
                bootstrap=broker.address, topic=topic, format="debezium-avro", options=options
            ),
            log=cdc.ChangeLog(source_table="lines", on_truncate="empty", metadata={"k": "key"}),
            schema_policy="add",
        )
        rows: list[dict[str, Any]] = []
        for step in steps[:4]:
            producer = broker.producer()
            for event in step.events:
                parts = {side: event.get(f"avro_{side}") for side in ("key", "value")}
                if "Mixed" not in event["topic"]:
                    sent = {side: text and base64.b64decode(text) for side, text in parts.items()}
                    producer.produce(topic, **sent)
            assert producer.flush(60) == 0
            result = run(asset, paimon)
            assert result.success, (step.name, failure_text(result))
            rows = paimon.catalog().get_table("shop.lines").to_arrow().to_pylist()
            found = {(row["order_id"], row["no"]): row["text"] for row in rows}
            expected = {(row["order_id"], row["no"]): row["text"] for row in step.rows["lines"]}
            assert found == expected, step.name
        assert json.loads(rows[0]["k"]).keys() == {"order_id", "no"}


def test_each_topic_of_database_is_table(broker: Broker, paimon: PaimonCatalogResource) -> None:
    prefix = f"db{random.randrange(10**9)}"  # noqa: S311
    database = cdc.DatabaseLog(database="shop", excluding=["*.secrets"])
    pattern = cdc.KafkaSource(
        bootstrap=broker.address, pattern=f"{prefix}.*", format="debezium-json"
    )
    [asset] = cdc.build_change_log_assets(database, source=pattern)

    def send(table: str, op: str, lsn: int, **values: Any) -> None:
        kinds = {"id": "int64", "state": "string"}
        value = json.loads(with_types(debezium(op, lsn, table, **values), **kinds))
        broker.send(f"{prefix}.public.{table}", ({"id": values["id"]}, value))

    for table in ("orders", "items", "secrets", "parts"):
        broker.create(1, topic=f"{prefix}.public.{table}")
    for table in ("orders", "items", "secrets"):
        send(table, "c", 10, id=1, state=table)
    assert run(asset, paimon).success
    assert sorted(paimon.catalog().list_tables("shop")) == ["items", "orders"]
    send("orders", "d", 20, id=1)
    send("parts", "c", 30, id=7, state="new")
    assert run(asset, paimon).success
    tables = {name: paimon.catalog().get_table(f"shop.{name}") for name in ("orders", "parts")}
    assert [len(table.to_arrow()) for table in tables.values()] == [0, 1]
    assert tables["parts"].to_arrow()["state"].to_pylist() == ["new"]
