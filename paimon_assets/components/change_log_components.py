"""Logs of databases and topics of Kafka in YAML."""

import json
from typing import Literal

import dagster as dg

from paimon_assets.assets.files.ingestion import build_file_ingestion_asset, build_new_files_sensor
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.cdc.assets.change_log_asset import build_change_log_asset
from paimon_assets.cdc.assets.topic_sensor import build_lag_sensor
from paimon_assets.cdc.assets.topic_source import KafkaSource
from paimon_assets.cdc.assets.whole_database import build_change_log_assets
from paimon_assets.components.built_components import component_of
from paimon_assets.components.catalog_components import HERE, NAME

_COLUMNS = {"id": "BIGINT", "amount": "DOUBLE"}
_KEYED = {"columns": _COLUMNS, "primary_keys": ["id"], "options": {"bucket": "1"}}
_FILES = {"folder": f"{HERE}/landing", "format": "debezium-json"}
_SOURCE = {"connector": "postgresql", "name": "pg", "db": "shop", "schema": "public"}
_LOG = {
    "landing/first.json": "\n".join(
        json.dumps(
            {
                "op": "c",
                "before": None,
                "after": {"id": number, "amount": 9.9 * number},
                "source": {**_SOURCE, "table": NAME, "lsn": number, "ts_ms": 1_767_600_000_000},
            }
        )
        for number in (1, 2)
    )
}


def _sensor(asset: dg.AssetsDefinition, *, source: FileSource | KafkaSource) -> dg.SensorDefinition:
    if isinstance(source, KafkaSource):
        return build_lag_sensor(asset, source=source)
    return build_new_files_sensor(asset, source=source)


PaimonChangeLogComponent = component_of(
    __name__,
    "PaimonChangeLogComponent",
    build_change_log_asset,
    {"table": f"shop.{NAME}", **_KEYED, "source": _FILES, "schema_policy": "add"},
    files=_LOG,
    sensor_of=_sensor,
)
PaimonDatabaseLogComponent = component_of(
    __name__,
    "PaimonDatabaseLogComponent",
    build_change_log_assets,
    {"database": {"database": NAME, "tables": {f"public.{NAME}": _KEYED}}, "source": _FILES},
    files=_LOG,
    kinds={"schema_policy": Literal["error", "add", "widen", "sync"]},
)
PaimonTopicComponent = component_of(
    __name__,
    "PaimonTopicComponent",
    build_file_ingestion_asset,
    {
        "table": f"shop.{NAME}",
        "columns": _COLUMNS,
        "source": {"bootstrap": "localhost:9092", "topic": NAME},
    },
    sensor_of=build_lag_sensor,
    kinds={"source": KafkaSource},
)
