"""Add-on: change data capture, and topics of Kafka.

    records ─▶ changes ─▶ images of rows, folded in the order of the log ─▶ one snapshot

Concept → packages:
    records of Debezium, Canal, Maxwell → changes      records/
    changes → rows of one table                        fold/
    topics: offsets → records                          kafka/
    Dagster's assets and sensors                       assets/
    topics read by Spark's tasks                       spark_topics
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.cdc.assets.change_log import ChangeLog as ChangeLog
    from paimon_assets.cdc.assets.change_log import ChangeLogConfig as ChangeLogConfig
    from paimon_assets.cdc.assets.change_log_asset import (
        build_change_log_asset as build_change_log_asset,
    )
    from paimon_assets.cdc.assets.topic_sensor import build_lag_sensor as build_lag_sensor
    from paimon_assets.cdc.assets.topic_source import KafkaSource as KafkaSource
    from paimon_assets.cdc.assets.topic_source import TopicConfig as TopicConfig
    from paimon_assets.cdc.assets.topic_source import TopicLogConfig as TopicLogConfig
    from paimon_assets.cdc.assets.whole_database import DatabaseLog as DatabaseLog
    from paimon_assets.cdc.assets.whole_database import OtherTablesConfig as OtherTablesConfig
    from paimon_assets.cdc.assets.whole_database import (
        build_change_log_assets as build_change_log_assets,
    )
    from paimon_assets.cdc.records.change_batch import AbsentValue as AbsentValue
    from paimon_assets.cdc.records.change_batch import BinaryMode as BinaryMode
    from paimon_assets.cdc.records.change_batch import CdcOptions as CdcOptions
    from paimon_assets.cdc.records.change_batch import TimeMode as TimeMode
    from paimon_assets.cdc.records.change_batch import TypeMapping as TypeMapping

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "cdc.assets.change_log": "ChangeLog ChangeLogConfig",
        "cdc.assets.change_log_asset": "build_change_log_asset",
        "cdc.assets.topic_sensor": "build_lag_sensor",
        "cdc.assets.topic_source": "KafkaSource TopicConfig TopicLogConfig",
        "cdc.assets.whole_database": "DatabaseLog OtherTablesConfig build_change_log_assets",
        "cdc.records.change_batch": "AbsentValue BinaryMode CdcOptions TimeMode TypeMapping",
    },
)
