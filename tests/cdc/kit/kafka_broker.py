"""A real broker of Kafka: one process of Java, from the jars of Maven Central, on loopback."""

import contextlib
import datetime as dt
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from paimon_assets.spark.java import find_java
from tests.testkit.maven_jars import fetched_jars
from tests.testkit.processes import end

VERSION = "4.1.1"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>"""
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl.scram-sha-512.sasl.jaas.config={login}
listener.name.tls.scram-sha-512.sasl.jaas.config={login}
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/tls.pem
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location={folder}/expired.pem
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.network.threads=1
num.io.threads=2
background.threads=1
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.backoff.ms=200
log.flush.start.offset.checkpoint.interval.ms=100
log.initial.task.delay.ms=100
"""
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SASL_SSL",
    "EXPIRED": "SSL",
}
"""Listener → its protocol; the last one has a certificate that has expired."""
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
LAKE_USER, PASSWORD = "lake", "hush-hush"
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=64m")
_SECONDS = 180


@cache
def jars() -> Path:
    """Return the folder of the broker's jars; skip the test where they are not to be had."""
    return fetched_jars(f"kafka-{VERSION}", _POM)


def _library(module: str) -> Any:
    return import_module(module)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_certificates(folder: Path, authority: Path, names: Mapping[str, int]) -> None:
    """Write an authority, and keys with certificates of it that end in so many days."""
    now = dt.datetime.now(dt.UTC)
    own_key, own_name = ec.generate_private_key(ec.SECP256R1()), _name("authority")

    def sign(name: x509.Name, key: Any, days: int, *, is_authority: bool) -> bytes:
        hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        rules = x509.BasicConstraints(ca=is_authority, path_length=None)
        made = (
            x509.CertificateBuilder(own_name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=9))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(hosts, critical=False)
            .add_extension(rules, critical=True)
        )
        return made.sign(own_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    authority.write_bytes(sign(own_name, own_key, 9, is_authority=True))
    for name, days in names.items():
        key = ec.generate_private_key(ec.SECP256R1())
        own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        both = own + sign(_name(name), key, days, is_authority=False)
        (folder / f"{name}.pem").write_bytes(both)


def _name(text: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


class Broker:
    """A broker that may be killed and started again; its data stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.addresses = {name: f"127.0.0.1:{_free_port()}" for name in _LISTENERS}
        self.address = self.addresses["PLAINTEXT"]
        self.authority = folder / "authority.pem"
        write_certificates(folder, self.authority, {"tls": 1, "expired": -1})
        self._settings = folder / "server.properties"
        text = _SETTINGS.format(
            listeners=",".join(f"{name}://{at}" for name, at in self.addresses.items()),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in _LISTENERS.items()),
            controller=_free_port(),
            folder=folder,
            login=_LOGIN,
        )
        self._settings.write_text(text, encoding="utf-8")
        cluster = ["-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(self._settings)]
        cluster += ["--add-scram", f"SCRAM-SHA-512=[name={LAKE_USER},password={PASSWORD}]"]
        subprocess.run(
            [*self._java("kafka.tools.StorageTool"), "format", *cluster],
            check=True,
            capture_output=True,
        )

    def _java(self, main: str) -> list[str]:
        return [f"{find_java()}/bin/java", *_JVM, "-cp", f"{jars()}/*", main]

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._settings)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.admin.list_topics(timeout=_SECONDS)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it answer nothing more, until it is killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def stop(self) -> None:
        if self._process is not None:
            end(self._process, 5)

    @cached_property
    def admin(self) -> Any:
        """A client; a call ends when it is gone."""
        return _library("confluent_kafka.admin").AdminClient(
            {"bootstrap.servers": self.address, "log_level": 0}
        )

    def create(self, partitions: int = 1, *, topic: str = "", **settings: str) -> str:
        """Create a topic; return its name."""
        topic = topic or f"orders-{uuid.uuid4().hex[:8]}"
        made = _library("confluent_kafka.admin").NewTopic(topic, partitions, config=settings)
        for _ in range(100):  # one of that name may be going
            try:
                self.admin.create_topics([made])[topic].result()
            except Exception as error:
                if "exists" not in str(error) and "deletion" not in str(error):
                    raise
            else:
                break
        self.await_partitions(topic, partitions)
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()

    def grow(self, topic: str, partitions: int) -> None:
        grown = _library("confluent_kafka.admin").NewPartitions(topic, partitions)
        self.admin.create_partitions([grown])[topic].result()
        self.await_partitions(topic, partitions)

    def await_partitions(self, topic: str, count: int) -> None:
        admin, deadline = self.admin, time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            known = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
            if len(known) == count and all(part.leader >= 0 for part in known.values()):
                return
        raise AssertionError(f"{topic} has no {count} partitions")

    def expire(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        part = _library("confluent_kafka").TopicPartition(topic, partition, offset)
        for answer in self.admin.delete_records([part]).values():
            answer.result()

    def compact(self, topic: str, *records: "Sent") -> None:
        """Send records and compact a topic of short segments, until its first record is deleted."""
        kafka, admin = _library("confluent_kafka"), _library("confluent_kafka.admin")
        entry = admin.ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=admin.AlterConfigOpType.SET
        )
        place = admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=[entry])
        for answer in self.admin.incremental_alter_configs([place]).values():
            answer.result()
        first, deadline = 0, time.monotonic() + _SECONDS
        while first == 0:
            assert time.monotonic() < deadline
            self.send(topic, *records)
            reader = kafka.Consumer({"bootstrap.servers": self.address, "group.id": "first"})
            try:
                reader.assign([kafka.TopicPartition(topic, 0, 0)])
                message = reader.poll(_SECONDS)
                assert message.error() is None
                first = message.offset()
            finally:
                reader.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset, and the one after the last."""
        kafka = _library("confluent_kafka")
        consumer = kafka.Consumer({"bootstrap.servers": self.address, "group.id": "bounds"})
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(
                kafka.TopicPartition(topic, partition)
            )
        finally:
            consumer.close()
        return found

    def producer(self, **settings: Any) -> Any:
        return _library("confluent_kafka").Producer(
            {"bootstrap.servers": self.address, "log_level": 0, "linger.ms": 0, **settings}
        )

    def send(self, topic: str, *records: "Sent", partition: int | None = None) -> None:
        """Send records: (key, value), each as JSON; None is no value."""
        producer = self.producer()
        send_all(producer, topic, records, partition=partition)
        assert producer.flush(_SECONDS) == 0


Sent = tuple[Mapping[str, Any] | None, Any]


def send_all(
    producer: Any, topic: str, records: Sequence[Sent], *, partition: int | None = None
) -> None:
    where = {} if partition is None else {"partition": partition}
    for key, value in records:
        texts = [None if each is None else json.dumps(each) for each in (key, value)]
        producer.produce(topic, key=texts[0], value=texts[1], **where)


@contextlib.contextmanager
def running_broker() -> Iterator[Broker]:
    """Run a broker on loopback; it needs 300 MB and ten seconds."""
    pytest.importorskip("confluent_kafka")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java to run Kafka's broker on")
    jars()
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
