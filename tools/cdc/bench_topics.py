"""Topics of Kafka read by Spark's tasks, beside Spark's own reader of Kafka, by turns.

    PAIMON_KAFKA_READER=1.jar,2.jar python -m tools.cdc.bench_topics [--repeat 3]

The jars are those of `spark-sql-kafka-0-10_2.13` and its dependencies, of the installed Spark. A
broker is started for it. Rows are objects of JSON of 130 bytes in two partitions; both results are
compared. Tables are written by our writer for both; changes are a whole run of ours alone.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg
from msgspec.structs import replace
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import Schema, assets
from paimon_assets.cdc import KafkaSource, build_change_log_asset
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.cdc.spark_topics import topics_to_dataframe
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.spark.dataframes.tables import write_dataframe
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tests.cdc.kit.kafka_broker import Broker, running_broker
from tests.testkit.tables import new_table
from tools.bench.bench_connector import Figures, consume, cpu_seconds
from tools.cdc.bench_changes import RECORDS, SCHEMA, changes

READER = "PAIMON_KAFKA_READER"
ROWS = Schema.of(
    {"id": "BIGINT", "page": "STRING", "user": "STRING", "price": "DOUBLE", "count": "INT"}
)
_DDL = "id bigint, page string, user string, price double, count int"


def _send(broker: Broker, values: Any) -> str:
    topic, producer = broker.create(2), broker.producer(**{"linger.ms": 50})
    for key, value in values:
        producer.produce(topic, value, key)
        if producer.poll(0) > 10_000:
            producer.flush()
        while len(producer) > 50_000:
            producer.poll(0.1)
    producer.flush()
    return topic


def _rows(count: int) -> Any:
    for number in range(count):
        text = (
            f'{{"id":{number},"page":"/shop/articles/{number % 997:05}/detail","user":'
            f'"user-{number % 40_009:08}@example.com","price":{number % 7919 / 100},'
            f'"count":{number % 11}}}'
        )
        yield str(number), text


def _by_turns(works: dict[str, Callable[[], Any]], repeat: int) -> dict[str, Figures]:
    found = {name: Figures() for name in works}
    for _ in range(repeat + 1):
        answers = []
        for name, work in works.items():
            spent, wall = cpu_seconds(), time.perf_counter()
            answers.append(work())
            found[name].wall.append(time.perf_counter() - wall)
            found[name].spent.append(cpu_seconds() - spent)
        assert all(each == answers[0] for each in answers), answers
    for figures in found.values():  # the first warms up
        del figures.wall[0], figures.spent[0]
    return found


def _materialize(asset: Any, lake: assets.PaimonCatalogResource) -> None:
    lake.catalog().drop_table("shop.rows", ignore_if_missing=True)
    assert dg.materialize([asset], resources={"paimon": lake}).success


def _measure(broker: Broker, folder: str, options: argparse.Namespace) -> Printed:
    extra = {"spark.jars": os.environ[READER]}
    settings = SparkSettings(master=f"local[{options.cores}]", extra=extra)
    session = get_session(settings)
    spark = assets.PaimonSparkResource(master=settings.master, extra=extra)
    lake = assets.PaimonCatalogResource(warehouse=folder, executor="spark", spark=spark)
    here = assets.PaimonCatalogResource(warehouse=folder, executor="embedded")
    source = KafkaSource(bootstrap=broker.address, topic=_send(broker, _rows(options.records)))
    ends = {part: broker.bounds(str(source.topic), part)[1] for part in range(2)}
    schema = to_arrow_schema(ROWS.fields)
    table = new_table(folder, ROWS, name="shop.copy")

    def ours() -> Any:
        spans = [
            OffsetRange(topic=str(source.topic), partition=part, start=0, end=end)
            for part, end in ends.items()
        ]
        return topics_to_dataframe(session, source.client(), spans, schema, {})

    def theirs() -> Any:
        read = session.read.format("kafka").option("subscribe", source.topic)
        found = read.option("kafka.bootstrap.servers", broker.address).load()
        value = fn.from_json(found["value"].cast("string"), _DDL)
        return found.select(value.alias("row")).select("row.*")

    def write_of(frame: Callable[[], Any]) -> Callable[[], None]:
        def write() -> None:
            write_dataframe(table, frame())

        return write

    asset = assets.build_file_ingestion_asset("shop.rows", ROWS, source=source)
    printed = Printed("step", "ours s (CPU)", "Spark's s (CPU)", "ratio")
    lines: list[tuple[str, dict[str, Callable[[], Any]]]] = [
        (
            "read",
            {
                "ours": lambda: consume(ours().select(*schema.names)),
                "spark": lambda: consume(theirs()),
            },
        ),
        ("into a table", {"ours": write_of(ours), "spark": write_of(theirs)}),
        (
            "into a table, embedded run of ours",
            {"ours": lambda: _materialize(asset, here), "spark": write_of(theirs)},
        ),
    ]
    for name, (form, record) in RECORDS.items():
        if options.changes in name:
            values = [
                (json.dumps({"id": (new or old)["id"]}), record(number, op, old, new))
                for number, op, old, new in changes(options.records // 10)
            ]
            log = replace(source, topic=_send(broker, values), format=form)
            of_log = build_change_log_asset("shop.rows", SCHEMA, source=log)
            lines.append((f"run: {name}", {"ours": partial(_materialize, of_log, lake)}))
    for title, works in lines:
        found = _by_turns(works, options.repeat)
        medians = [statistics.median(each.wall) for each in found.values()]
        ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) > 1 else ""
        texts = [each.text for each in found.values()]
        printed.add_row(title, *texts, *[""] * (2 - len(texts)), ratio)
        sys.stderr.write(f"{title}: {texts} {ratio}\n")
    return printed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--changes", default="Debezium", help="a part of the kinds' name")
    options = parser.parse_args()
    with running_broker() as broker, tempfile.TemporaryDirectory() as folder:
        try:
            printed = _measure(broker, folder, options)
        finally:
            stop_session()
    Console(width=110).print(printed)


if __name__ == "__main__":
    main()
