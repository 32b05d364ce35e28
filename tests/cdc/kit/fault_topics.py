"""Runs that read a topic, in processes of their own, which may be killed."""

import itertools
import os
import signal
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dagster as dg

from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.cdc import KafkaSource, TopicLogConfig, build_change_log_asset
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.kafka_broker import send_all
from tests.testkit.faults.killing_file_io import Countdown
from tests.testkit.faults.materializing import succeeds
from tests.testkit.faults.writers import SURVIVED

ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)


def orders_of(address: str, topic: str) -> dg.AssetsDefinition:
    source = KafkaSource(bootstrap=address, topic=topic, timeout_seconds=20)
    return build_change_log_asset("shop.orders", ORDERS, source=source)


def follow(warehouse: str, address: str, topic: str, most: int = 0, **config: Any) -> bool:
    """Apply the records of a topic; return the success of the run."""
    form = TopicLogConfig(max_records=most, **config)
    run_config = dg.RunConfig(ops={"shop__orders": form})
    paimon = PaimonCatalogResource(warehouse=warehouse, executor="embedded")
    return succeeds(orders_of(address, topic), warehouse, run_config, paimon=paimon)


def follow_until_killed(
    warehouse: str, address: str, topic: str, most: int, steps: int, seconds: int = 0
) -> None:
    """Apply the records of a topic; die at call number `steps` for a file of the warehouse."""
    Countdown(steps).watch(warehouse)
    if follow(warehouse, address, topic, most, follow_seconds=seconds, commit_seconds=0.2):
        os._exit(SURVIVED)


def follow_until_terminated(warehouse: str, address: str, topic: str) -> None:
    """Go on, a commit every tenth of a second, until the third; then be terminated as a run is."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # as Dagster does
    third = Path(f"{warehouse}/shop.db/orders/snapshot/snapshot-3")
    numbers = itertools.count(10)

    def feed() -> None:
        producer = import_module("confluent_kafka").Producer({"bootstrap.servers": address})
        while not third.exists():
            send_all(producer, topic, [(None, {"id": next(numbers), "state": "new"})])
            producer.flush()
            Event().wait(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=feed).start()
    is_whole = follow(warehouse, address, topic, follow_seconds=600, commit_seconds=0.1)
    os._exit(SURVIVED if is_whole else 1)
