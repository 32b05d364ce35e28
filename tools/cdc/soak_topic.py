"""An hour of a table that follows a topic: a real broker, a commit every few seconds, compactions.

python -m tools.cdc.soak_topic [--minutes 60] [--rate 1000] [--into .soak-topic]

Changes are produced all the time. One process follows them in one run, another one asks the sensor
of file debt and compacts, and expires snapshots. Each tells its memory, objects and CPU, a line a
minute; at the end come the seconds from producing a change to its commit. It ends with an error if
a row of the table is wrong.
"""

import argparse
import contextlib
import datetime as dt
import gc
import itertools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from paimon_assets import Schema, assets
from paimon_assets.cdc import KafkaSource, TopicLogConfig, build_change_log_asset
from tests.cdc.kit.kafka_broker import Broker, running_broker
from tests.testkit.processes import end

_TOPIC, _PARTITIONS, _KEYS = "orders", 2, 50_000
_MAINTENANCE_SECONDS, _SENSOR_SECONDS, _COMMIT_SECONDS = 600, 30, 5.0
_NEVER = Event()
SCHEMA = Schema.of(
    {"id": "BIGINT", "state": "STRING", "note": "STRING"},
    primary_keys=["id"],
    options={"bucket": "1", "snapshot.time-retained": "10 min"},
)


class Place:
    """The values that all processes share: the table's asset, and Dagster's storage."""

    def __init__(self, home: Path, address: str) -> None:
        self.home = home
        source = KafkaSource(bootstrap=address, topic=_TOPIC, format="debezium-json")
        self.asset = build_change_log_asset("soak.orders", SCHEMA, source=source)
        self.paimon = assets.PaimonCatalogResource(
            warehouse=str(home / "warehouse"), executor="embedded"
        )
        self.resources = {"paimon": self.paimon}

    def instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.local_temp(str(self.home / "dagster"))

    def follow(self, seconds: int) -> bool:
        config = TopicLogConfig(follow_seconds=seconds, commit_seconds=_COMMIT_SECONDS)
        with self.instance() as instance:
            return dg.materialize(
                [self.asset],
                resources=self.resources,
                instance=instance,
                run_config=dg.RunConfig(ops={self.asset.node_def.name: config}),
            ).success

    def keep(self) -> None:
        """Compact when the sensor asks for it, and expire, for ever."""
        compaction = assets.build_compaction_job([self.asset])
        jobs = {"compaction": compaction, "maintenance": assets.build_maintenance_job([self.asset])}
        sensor = assets.build_file_debt_sensor(compaction, tables=[self.asset])
        begun, cursor = time.monotonic(), None
        with self.instance() as instance:
            while True:
                _NEVER.wait(_SENSOR_SECONDS)
                runs = []
                with dg.build_sensor_context(instance, cursor, resources=self.resources) as context:
                    ticked: Any = sensor(context)
                cursor = ticked.cursor
                runs += [("compaction", each.run_config) for each in ticked.run_requests or ()]
                if time.monotonic() - begun > _MAINTENANCE_SECONDS:
                    begun = time.monotonic()
                    runs.append(("maintenance", {}))
                for name, config in runs:
                    jobs[name].execute_in_process(
                        run_config=config, resources=self.resources, instance=instance
                    )


def _watch(path: Path, done: Event) -> None:
    """Write the memory and files of this process, each minute."""
    before: Counter[str] = Counter()
    while True:
        gc.collect()
        objects = gc.get_objects()
        kinds = Counter(type(each).__qualname__ for each in objects)
        count = len(objects)
        del objects
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        line = {
            "at": time.time(),
            "rss_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            "arrow_mb": pa.total_allocated_bytes() / 1e6,
            "objects": count,
            "cpu": time.process_time(),
            "more": (kinds - before).most_common(8) if before else [],
        }
        before = kinds
        with path.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        if done.wait(60):
            return


class Feed:
    """Produces changes, and knows the rows that they make and when each was sent."""

    def __init__(self, broker: Broker) -> None:
        self.producer = broker.producer()
        self.rows: dict[int, str] = {}
        self.sent = [array("d") for _ in range(_PARTITIONS)]
        self.random = random.Random(1)
        self.number = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            key = self.random.randrange(_KEYS)
            old = self.rows.get(key)
            if old is not None and self.random.random() < 0.1:
                op, note = "d", None
                del self.rows[key]
            else:
                op = "c" if old is None else "u"
                note = self.rows[key] = f"note {self.number} of {key}"
            value = {"op": op, "before": self._row(key, old), "after": self._row(key, note),
                     "source": {"connector": "postgresql", "name": "pg", "db": "shop",
                                "schema": "public", "table": "orders", "lsn": self.number,
                                "ts_ms": time.time_ns() // 1_000_000}}  # fmt: skip
            part = key % _PARTITIONS
            self.producer.produce(
                _TOPIC, json.dumps(value), json.dumps({"id": key}), partition=part
            )
            self.sent[part].append(time.time())
        self.producer.poll(0)

    @staticmethod
    def _row(key: int, note: str | None) -> dict[str, Any] | None:
        return None if note is None else {"id": key, "state": f"s{key % 7}", "note": note}


def _feed(
    feed: Feed, rate: int, seconds: float, children: Sequence[subprocess.Popen[bytes]]
) -> None:
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < seconds:
        assert not any(child.poll() for child in children), "a process failed"
        feed.send(int(now * rate) - feed.number)
        _NEVER.wait(0.05)
    assert feed.producer.flush(60) == 0


def _commits(place: Place) -> list[tuple[float, list[dict[str, Any]]]]:
    """Return when Dagster got each commit, and its offsets."""
    found = []
    with place.instance() as instance:
        cursor = None
        while True:
            page = instance.fetch_materializations(place.asset.key, limit=100, cursor=cursor)
            for record in page.records:
                event: Any = record.asset_materialization
                if "paimon/offsets" in event.metadata:  # a compaction has none
                    rows = event.metadata["paimon/offsets"].value.records
                    found.append((record.timestamp, [row.data for row in rows]))
            cursor = page.cursor
            if not page.has_more:
                return sorted(found, key=lambda each: each[0])


def _delays(feed: Feed, commits: list[tuple[float, list[dict[str, Any]]]]) -> Any:
    sent = [np.array(times) for times in feed.sent]
    return np.concatenate(
        [
            at - sent[part["partition"]][part["from"] : part["to"]]
            for at, parts in commits
            for part in parts
        ]
    )


def _minutes(place: Place, commits: list[float]) -> Iterator[str]:
    lines = [json.loads(line) for line in (place.home / "follow.jsonl").read_text().splitlines()]
    for number, (old, new) in enumerate(itertools.pairwise(lines), 1):
        count = sum(old["at"] < at <= new["at"] for at in commits)
        cpu = (new["cpu"] - old["cpu"]) / max(1, count)
        yield (
            f"minute={number} rss_mb={new['rss_mb']:.0f} arrow_mb={new['arrow_mb']:.1f} "
            f"objects={new['objects']} commits={count} cpu_a_commit={cpu:.3f} "
            f"more={new['more'][:4]}"
        )


def _show(*words: object) -> None:
    print(*words, flush=True)


def _files(place: Place, done: Event) -> None:
    folder = place.home / "warehouse"
    while not done.wait(60):
        files = [*folder.rglob("*")]
        _show(
            f"{dt.datetime.now(dt.UTC):%H:%M:%S} files={len(files)} "
            f"data={sum(each.parent.name == 'bucket-0' for each in files)} "
            f"snapshots={sum(each.name.startswith('snapshot-') for each in files)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--into", type=Path, default=Path(".soak-topic"))
    parser.add_argument("--role", choices=["follow", "keep"], help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    choices = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    seconds, home = choices.minutes * 60, choices.into.resolve()
    if choices.role:
        place, done = Place(home, choices.address), Event()
        watch = Thread(target=_watch, args=(home / f"{choices.role}.jsonl", done), daemon=True)
        watch.start()
        if choices.role == "keep":
            with contextlib.suppress(KeyboardInterrupt):  # it is terminated so
                place.keep()
            return
        is_whole = place.follow(int(seconds))
        done.set()
        watch.join()
        sys.exit(not is_whole)
    shutil.rmtree(home, ignore_errors=True)
    (home / "dagster").mkdir(parents=True)
    with running_broker() as broker:
        broker.create(_PARTITIONS, topic=_TOPIC)
        place, feed, done = Place(home, broker.address), Feed(broker), Event()
        with place.instance():  # makes its storage, which two processes at once cannot
            pass
        command = [sys.executable, "-m", "tools.cdc.soak_topic", f"--into={home}"]
        command += [f"--address={broker.address}", f"--minutes={choices.minutes}"]
        children = [
            subprocess.Popen([*command, f"--role={role}"], start_new_session=True)
            for role in ("follow", "keep")
        ]
        Thread(target=_files, args=(place, done), daemon=True).start()
        try:
            _feed(feed, choices.rate, seconds, children)
            assert children[0].wait(120) == 0, "the run failed"
        finally:
            done.set()
            for child in children:
                end(child, 5)
        assert place.follow(0)
        commits = _commits(place)
    for line in _minutes(place, [at for at, _ in commits]):
        _show(line)
    delays = _delays(feed, commits)
    assert len(delays) == feed.number, "each change was read once"
    _show(f"changes={feed.number} commits={len(commits)}")
    half, most = np.percentile(delays, (50, 95))
    _show(f"seconds to a commit: p50={half:.2f} p95={most:.2f}")
    found = place.paimon.catalog().get_table("soak.orders").to_arrow()
    rows = dict(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))
    assert rows == feed.rows, "rows are wrong"
    assert len(found) == len(rows), "a key is there twice"
    _show(f"rows={len(rows)}, all right")


if __name__ == "__main__":
    main()
