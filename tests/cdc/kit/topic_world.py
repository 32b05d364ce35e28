"""A topic and the rows that tables must have which follow it."""

import random
from dataclasses import dataclass, field
from typing import Any

from tests.cdc.kit.kafka_broker import Broker, send_all


@dataclass
class World:
    """A topic, the expected rows by key, and all rows that were sent."""

    broker: Broker
    topic: str
    draw: random.Random
    partitions: int = 3
    rows: dict[int, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    number: int = 0

    def send(self) -> None:
        """Send some changes; some twice, as a producer does that had no answer; some aborted."""
        outcome = self.draw.choice(["plain", "idempotence", "commit", "abort"])
        if outcome in ("commit", "abort"):
            producer = self._transactional()
            producer.begin_transaction()
        else:
            is_safe = outcome == "idempotence"
            producer = self.broker.producer(**{"enable.idempotence": is_safe})
        for _ in range(self.draw.randint(1, 30)):
            key, self.number = self.draw.randrange(12), self.number + 1
            value = {"id": key, "state": f"s{self.number}"}
            record = ({"id": key}, None if self.draw.random() < 0.2 else value)
            repeats = 2 if self.draw.random() < 0.1 else 1
            send_all(producer, self.topic, [record] * repeats, partition=key % self.partitions)
            if outcome == "abort":
                continue
            if record[1] is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = str(value["state"])
                self.sent += [self.rows[key]] * repeats
        producer.flush()
        if outcome in ("commit", "abort"):
            getattr(producer, f"{outcome}_transaction")()

    def leave_open(self) -> None:
        """Send changes in a transaction whose producer dies; the next one aborts it."""
        producer = self._transactional()
        producer.begin_transaction()
        send_all(producer, self.topic, [(None, {"id": 0, "state": "open"})], partition=0)
        producer.flush()

    def end_open(self) -> None:
        """Let no transaction be open."""
        self._transactional()

    def _transactional(self) -> Any:
        producer = self.broker.producer(**{"transactional.id": f"{self.topic}-t"})
        producer.init_transactions()
        return producer

    def expire(self) -> None:
        """Delete all records, as retention does."""
        for part in range(self.partitions):
            self.broker.expire(self.topic, part, -1)

    def lose(self) -> None:
        """Send changes that are deleted before a table reads them."""
        rows, count = dict(self.rows), len(self.sent)
        self.send()
        self.expire()
        self.rows, self.sent = rows, self.sent[:count]

    def make_again(self) -> None:
        self.broker.delete(self.topic)
        self.partitions = 3
        self.broker.create(3, topic=self.topic)
