"""Topics of Kafka as the source of a table."""

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self, get_args

import dagster as dg
from msgspec import field
from pydantic import Field

from paimon_assets.assets.files.source_files import ChangeFormat, ExtraColumns
from paimon_assets.assets.files.sources import Opening
from paimon_assets.assets.translator import identifier_of
from paimon_assets.cdc.fold.topic_changes import TopicChanges
from paimon_assets.cdc.kafka.messages import METADATA
from paimon_assets.cdc.kafka.registry import PREFIX, URL
from paimon_assets.cdc.kafka.topics import Client
from paimon_assets.cdc.records.formats import cdc_format
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:  # the intake imports the source
    from paimon_assets.cdc.assets.topic_intake import TopicIntake

Start = str | dt.datetime | Mapping[int, int]


class Order(StrEnum):
    """The order of the changes of one key."""

    OFFSET = "offset"
    """That of their partition: a producer sends all changes of a key to one."""
    RECORD = "record"
    """That of the position each record has in its database's log; see `ChangeLog`."""


class KafkaSource(Value, hidden=("options",)):
    """Topics of Kafka whose records become rows, or changes of rows. There is no consumer group.

    >>> source = KafkaSource(bootstrap="host:9092", topic="orders", format="debezium-json")
    """

    bootstrap: str | dg.EnvVar
    """Brokers, as `host:9092,other:9092`."""
    topic: str | None = None
    pattern: str | None = None
    """Instead of a topic: a glob on the names of topics, such as `shop.*`."""
    format: ChangeFormat | Literal["json", "debezium-avro"] = "json"
    """Values are objects of JSON: rows, or change records; or Debezium's in Confluent's Avro."""
    start: Start = "earliest"
    """Where a table without rows of the topic begins: `earliest`, `latest`, a time, or partition →
    offset. Topics and partitions that come later are read from their beginning."""
    order: str = Order.OFFSET
    """Of change logs: `offset`, or `record`."""
    options: Mapping[str, str | dg.EnvVar] = field(default_factory=dict)
    """Settings of librdkafka, such as `security.protocol`, `sasl.password`. Secrets are `EnvVar`s,
    which are read when the asset runs. Of `debezium-avro` also those of the registry of schemas:
    `schema.registry.url`, `schema.registry.basic.auth.user.info`, `schema.registry.ssl.…`."""
    timeout_seconds: float = 60.0
    """So long a cluster may be silent before a run fails."""
    schema: Schema | None = None
    """Of rows: columns of the records, where they are not those of the table."""
    extra_columns: ExtraColumns = "error"
    """Of rows: whether undeclared members fail, are ignored or are added; see `FileSource`. With
    `add`, the process of the run reads the records. A member that a record lacks is null."""
    dead_letters: str | None = None
    """Of rows: `database.table` for records that do not parse or do not fit the table, each with
    topic, offset and reason; see `FileSource`. Change logs have `ChangeLog.dead_letters`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Of rows: column → its source in the record: `topic`, `partition`, `offset`, `timestamp`,
    `key`, `headers`. Change logs have `ChangeLog.metadata`."""

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            InvalidInputError: Kind `kafka-source`.
        """
        if (self.topic is None) == (self.pattern is None):
            raise _invalid("A KafkaSource has a topic or a pattern, one of both.")
        known = ("json", "debezium-avro", *get_args(ChangeFormat))
        if self.format not in known:
            cdc_format(self.format)
            raise _invalid(f"Records of format '{self.format}' are not read from topics.")
        has_registry = any(name.startswith(PREFIX) for name in self.options)
        if has_registry is not (self.format == "debezium-avro"):
            raise _invalid(f"options have '{URL}' if the format is debezium-avro, and only then.")
        if self.extra_columns not in (words := get_args(ExtraColumns)):
            raise _invalid(f"extra_columns is '{self.extra_columns}'; expected {', '.join(words)}.")
        if self.order not in list(Order):
            raise _invalid(f"order is '{self.order}'; expected one of {', '.join(Order)}.")
        if isinstance(self.start, str) and self.start not in ("earliest", "latest"):
            raise _invalid(
                f"start is '{self.start}'; give earliest, latest, a datetime with its zone, or "
                "partition → offset."
            )
        if isinstance(self.start, dt.datetime) and self.start.tzinfo is None:
            raise _invalid("start is a time without a zone; say which, such as tzinfo=dt.UTC.")
        if self.dead_letters is not None:
            identifier_of(self.dead_letters)
            if self.is_change_log:
                raise _invalid("Dead letters of change logs are ChangeLog(dead_letters=…).")
        for name, kind in self.metadata.items():
            if kind not in METADATA:
                raise _invalid(
                    f"metadata of column '{name}' is '{kind}'; expected one of "
                    f"{', '.join(METADATA)}."
                )

    @property
    def is_change_log(self) -> bool:
        """Whether records are changes of tables, and nothing else."""
        return self.format != "json"

    @property
    def config(self) -> type[dg.Config]:
        return TopicConfig

    def check_rows(self, table: str, _: Schema) -> None:
        """Refuse to feed a table with rows.

        Raises:
            InvalidInputError: The records are a change log.
        """
        if self.is_change_log:
            raise InvalidInputError(
                f"Records of format '{self.format}' are a change log: build_change_log_asset makes "
                f"the asset of table {table}.",
                kind="file-format",
            )

    def open(self, opening: Opening) -> "TopicIntake":
        from paimon_assets.cdc.assets.topic_intake import TopicIntake  # noqa: PLC0415

        return TopicIntake(
            paimon=opening.paimon, table=opening.table, source=self, ledger=opening.ledger(),
            log=opening.log, is_change_log=isinstance(opening.config, TopicLogConfig),
        )  # fmt: skip

    @property
    def title(self) -> str:
        return f"{self.place} in {self.format}"

    @property
    def place(self) -> str:
        return f"topic '{self.topic}'" if self.pattern is None else f"topics '{self.pattern}'"

    def client(self) -> Client:
        """Return the cluster's client, with the values of environment variables.

        Raises:
            InvalidInputError: Kind `kafka-source`: a variable is not set.
        """
        values = {"bootstrap.servers": _value("bootstrap.servers", self.bootstrap)}
        return Client({**values, **self._settings(of_registry=False)}, seconds=self.timeout_seconds)

    def changes(self) -> TopicChanges:
        """Return the reader of changes in the records; raises as `client`."""
        return TopicChanges(
            format=self.format,
            by_offset=self.order == Order.OFFSET,
            registry_settings=self._settings(of_registry=True),
            seconds=self.timeout_seconds,
        )

    def _settings(self, *, of_registry: bool) -> dict[str, str]:
        return {
            name: _value(name, value)
            for name, value in self.options.items()
            if name.startswith(PREFIX) is of_registry
        }


def _value(name: str, value: str | dg.EnvVar) -> str:
    if not isinstance(value, dg.EnvVar):
        return str(value)
    text = value.get_value()
    if text is None:
        raise _invalid(
            f"'{name}' is taken from the environment variable '{value.env_var_name}', which is not "
            "set: set it where runs are made."
        )
    return text


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind="kafka-source")


_LOST = ("error", "earliest", "latest")


class TopicConfig(dg.Config):
    """The config of a run that reads topics.

    >>> TopicConfig(max_records=10_000, follow_seconds=60).commit_seconds
    5.0
    """

    max_records: int = Field(
        default=1_000_000, description="Most records of one run, of all partitions; 0: all."
    )
    max_bytes: int = Field(
        default=1 << 30,
        description="Most bytes of keys and values of one run, which holds them in memory; 0: all. "
        "On Spark each range has its share, and of rows max_records alone counts.",
    )
    lost_position: str = Field(
        default="error",
        description="Where a topic was made again, or its retention passed the table's position: "
        "error, or continue in this run at earliest or latest. Records in between are lost.",
    )
    new_partitions: bool = Field(
        default=False,
        description="Whether partitions that were added are read though keys may have moved to "
        "them: run so once, when all changes from before are in the table.",
    )
    follow_seconds: int = Field(
        default=0,
        description="Seconds that the run continues after the topic's end, with a commit and a "
        "materialization every commit_seconds; 0: it ends there.",
    )
    commit_seconds: float = Field(
        default=5.0, description="Seconds between the commits of a run with follow_seconds."
    )
    dry_run: bool = Field(default=False, description="Only report new records; write nothing.")

    def later(self) -> Self:
        """Return the config of the run's further commits, without the options for the first."""
        return type(self)(max_records=self.max_records, max_bytes=self.max_bytes)


class TopicLogConfig(TopicConfig):
    """The config of a run that applies a change log from topics.

    >>> TopicLogConfig(new_log=True).lost_position
    'error'
    """

    reload: bool = Field(
        default=False,
        description="Replace the table by the records of the topics, from the first on.",
    )
    new_log: bool = Field(
        default=False,
        description="Whether records of another server or log are taken, as changes after all "
        "that the table holds: after a failover. Only with order 'record'.",
    )
    set_aside: bool = Field(
        default=False,
        description="Whether changes of rows that cannot be known are written to the table of dead "
        "letters, with the reason, and all other changes are applied.",
    )


def check_config(config: TopicConfig) -> None:
    """Refuse values that the Launchpad does not know to be wrong.

    Raises:
        InvalidInputError: Kind `ingest-config`.
    """
    for name in ("max_records", "max_bytes", "follow_seconds", "commit_seconds"):
        value = getattr(config, name)
        if value < 0:
            raise InvalidInputError(
                f"{name} is {value}; give 0, or a number above.", kind="ingest-config"
            )
    if config.lost_position not in _LOST:
        message = f"lost_position is '{config.lost_position}'; expected one of {', '.join(_LOST)}."
        raise InvalidInputError(message, kind="ingest-config")
