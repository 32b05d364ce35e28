"""Topics, the ends of their partitions, and requests to their cluster.

Settings are librdkafka's. Errors name the broker, the topic and the way out, and no setting's
value: it may be a secret.
"""

import fnmatch
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from paimon_assets.engine.errors import InvalidInputError, NotFoundError, StorageError
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten

_ISOLATION = "isolation.level"
_DEFAULTS = {
    "log_level": "2",  # failures are errors of ours; it would print each try to connect
    "group.id": "paimon-assets",  # the client wants one; nothing is committed to it
    "fetch.queue.backoff.ms": "50",  # by default it fetches nothing for 1 s after 100,000 records
    _ISOLATION: "read_committed",
}
_DENIED = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
           "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")  # fmt: skip

_REFUSED = ("_AUTHENTICATION", "_SSL")
"""Why a connection fails for good: credentials, certificates."""
_POLL_SECONDS = 0.05
_DOWN_SECONDS = 10
"""How long a cluster may be restarted; one that is silent keeps its connections."""


class OffsetRange(Value):
    """Some offsets of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    """After the last."""

    @property
    def name(self) -> str:
        """The partition, as messages show it."""
        return f"{self.topic}[{self.partition}]"

    def __len__(self) -> int:
        return self.end - self.start


class TopicState(Value):
    """A topic, as it is now."""

    name: str
    id: str
    """Another one if the topic was made again; empty if the broker does not say."""
    bounds: Mapping[int, tuple[int, int]]
    """Partition → its first offset, and the one after the last that may be read."""


def library(module: str = "confluent_kafka") -> Any:
    """Return confluent-kafka.

    Raises:
        InvalidInputError: Kind `missing-package`: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInputError(
            "Topics of Kafka are read by 'confluent-kafka', which is not installed: "
            "pip install 'paimon-assets[kafka]'.",
            kind="missing-package",
            package="confluent-kafka",
        ) from error


class Client:
    """Settings of a cluster, and the last complaint of its connections."""

    def __init__(self, settings: Mapping[str, str], *, seconds: float = 60.0) -> None:
        """Take librdkafka's settings, and how long the cluster may be silent."""
        self.seconds = seconds
        self._settings = {**_DEFAULTS, **settings}
        self._broker = settings["bootstrap.servers"]
        self._complaint = ""
        self._refusal: Any = None
        self._down: tuple[float, Any] | None = None

    def open(self, make: Callable[[dict[str, Any]], Any], more: Mapping[str, Any]) -> Any:
        """Return a consumer or an admin client.

        Raises:
            InvalidInputError: Kind `kafka-setting`: a setting is not known, or its value is none.
        """
        settings = {**self._settings, **more, "error_cb": self._hear}
        try:
            return make(settings)
        except (library().KafkaException, TypeError, ValueError) as error:
            names = sorted((name for name in settings if name in str(error)), key=len)[-1:]
            about = f"the setting '{names[0]}'" if names else f"one of {shorten([*self._settings])}"
            raise InvalidInputError(
                f"Kafka's client does not take its settings: {about} is not known, or its value is "
                "none it knows. Correct KafkaSource(options=…); values are not shown.",
                kind="kafka-setting",
            ) from None  # its message has the value

    def _hear(self, error: Any) -> None:
        if error.name() != "_ALL_BROKERS_DOWN" or not self._complaint:
            self._complaint = f"; {error.str()}"
        if error.name() == "_ALL_BROKERS_DOWN" and self._down is None:
            self._down = time.monotonic(), error
        if error.name() in _REFUSED:
            self._refusal = error

    def check_connection(self) -> None:
        """Refuse to wait for brokers that a connection to fails for good."""
        if self._refusal is not None:
            raise library().KafkaException(self._refusal)

    def _result(self, admin: Any, future: Any) -> Any:
        while not future.done():
            admin.poll(_POLL_SECONDS)  # it hears complaints
            self.check_connection()
            since, error = self._down or (math.inf, None)
            if time.monotonic() - since > min(_DOWN_SECONDS, self.seconds):
                raise library().KafkaException(error)
        return future.result()

    @contextmanager
    def asking(self, subject: str) -> Iterator[None]:
        """Make errors of the client those of this package."""
        try:
            yield
        except library().KafkaException as error:
            raise self.failure(error.args[0], subject) from error

    def failure(self, error: Any, subject: str) -> InvalidInputError | StorageError:
        """Return the error of an answer."""
        if error.name() == "UNKNOWN_TOPIC_OR_PART":
            message = (
                f"Kafka at {self._broker} has no {subject}. Correct the name, or let a producer "
                "make it."
            )
            return NotFoundError(message, kind="kafka-topic", source=subject)
        way_out = "try again"
        if error.name() in _DENIED:
            way_out = "correct the credentials, or let the user read and describe it"
        elif error.name() == "_SSL":
            way_out = "correct the certificates: the brokers', or 'ssl.ca.location'"
        elif error.name() == "_ALL_BROKERS_DOWN":
            way_out = "correct the address, or try again"
        complaint = "" if error is self._refusal else self._complaint
        message = (
            f"Kafka at {self._broker} does not answer for {subject}: {error.str()}{complaint}. "
            f"Nothing was committed; {way_out}."
        )
        has_waited = error.name() in ("_TIMED_OUT", "_ALL_BROKERS_DOWN")
        waited = {"waited_seconds": self.seconds} if has_waited else {}
        return StorageError(message, kind="kafka", source=subject, **waited)

    def silence(self, names: Sequence[str]) -> StorageError:
        """Return the error of a cluster that sends nothing more."""
        message = (
            f"Kafka at {self._broker} sends nothing more of {shorten(names)}{self._complaint}. "
            "Nothing was committed; try again."
        )
        return StorageError(message, kind="kafka", source=names[0])

    def topics(self, names: Sequence[str], pattern: str | None = None) -> list[TopicState]:
        """Return topics by their names, or those that match a glob.

        Raises:
            NotFoundError: Kind `kafka-topic`: there is no topic of a name.
            StorageError: Kind `kafka`: the cluster does not answer.
        """
        kafka, admin_module = library(), library("confluent_kafka.admin")
        admin = self.open(admin_module.AdminClient, {})
        if pattern is not None:
            with self.asking(f"topics like '{pattern}'"):
                self._result(admin, admin.describe_cluster(request_timeout=self.seconds))
                listed = admin.list_topics(timeout=self.seconds).topics
            names = sorted(name for name in listed if fnmatch.fnmatchcase(name, pattern))
        if not names:
            return []
        described = admin.describe_topics(
            kafka.TopicCollection([*names]), request_timeout=self.seconds
        )
        states = []
        for name in names:
            with self.asking(f"topic '{name}'"):
                topic = self._result(admin, described[name])
                partitions = sorted(part.id for part in topic.partitions)
                spec = admin_module.OffsetSpec
                firsts = self._offsets(admin, name, partitions, spec.earliest())
                ends = self._offsets(admin, name, partitions, spec.latest())
            bounds = {part: (firsts[part], ends[part]) for part in partitions}
            states.append(TopicState(name=name, id=str(topic.topic_id or ""), bounds=bounds))
        return states

    def offsets_at(self, topic: TopicState, millis: int) -> dict[int, int]:
        """Return of each partition the first offset that is not before a time."""
        admin_module = library("confluent_kafka.admin")
        admin = self.open(admin_module.AdminClient, {})
        with self.asking(f"topic '{topic.name}'"):
            spec = admin_module.OffsetSpec.for_timestamp(millis)
            found = self._offsets(admin, topic.name, [*topic.bounds], spec)
        return {part: topic.bounds[part][1] if at < 0 else at for part, at in found.items()}

    def _offsets(
        self, admin: Any, topic: str, partitions: Sequence[int], spec: Any
    ) -> dict[int, int]:
        kafka = library()
        wanted = {kafka.TopicPartition(topic, part): spec for part in partitions}
        if not wanted:
            return {}
        level = kafka.IsolationLevel[self._settings[_ISOLATION].upper()]
        answers = admin.list_offsets(wanted, isolation_level=level, request_timeout=self.seconds)
        offsets = {
            part.partition: self._result(admin, answer).offset for part, answer in answers.items()
        }
        if kafka.OFFSET_INVALID in offsets.values():  # so the client tells a lost connection
            raise self.silence([topic])
        return offsets
