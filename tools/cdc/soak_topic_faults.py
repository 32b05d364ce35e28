"""Random faults while two tables follow a topic, beside a model of their rows.

python -m tools.cdc.soak_topic_faults [--minutes 30] [--seed 1] [--into .soak-faults]

The runs commit several times a second. They are killed at any time and the broker under them,
too; partitions are added, the topic is deleted and made again, retention passes the position;
producers send twice, abort, or die with a transaction open; compactions run beside. A run may end
with an error of docs/cdc/kafka.md, where that is due; then its way out is taken. After some
steps the rows must be those of the model: by key, and a row of each record.
"""

import argparse
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg

from paimon_assets.assets import PaimonCatalogResource, build_file_ingestion_asset
from paimon_assets.cdc import KafkaSource, TopicConfig, TopicLogConfig, build_change_log_asset
from paimon_assets.engine.errors import CommitConflictError, NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.kafka_broker import Broker, running_broker
from tests.cdc.kit.topic_world import World
from tests.testkit.asset_tables import failure_text, run
from tests.testkit.faults.writers import fork_server

_COLUMNS = {"id": "BIGINT", "state": "STRING"}
_SCHEMAS = {
    "keyed": Schema.of(_COLUMNS, primary_keys=["id"], options={"bucket": "1"}),
    "every": Schema.of(_COLUMNS),
}
_WAYS_OUT: dict[str, dict[str, Any]] = {
    "cannot continue with partition": {"lost_position": "earliest"},
    "has new partitions": {"new_partitions": True},
    "does not answer": {},
    "sends nothing more": {},
    "no record at the position any more": {},
    "has no topic": {},
}
"""Part of a message → the config of the next run."""
_PASSING = _WAYS_OUT.keys() - {"cannot continue with partition", "has new partitions"}
"""Messages that a run may get while a topic or a broker is started again."""
_STEPS = (
    *("send",) * 10, *("kill",) * 5, *("leave_open",) * 2, *("settle",) * 2, "compact",
    "restart", "expire", "lose", "make_again", "grow",
)  # fmt: skip
_LONGEST = 240.0
_NEVER = Event()


def follow(warehouse: str, address: str, topic: str, name: str, config: dict[str, Any]) -> None:
    """Follow in this process; an error is written beside the warehouse."""
    source = KafkaSource(bootstrap=address, topic=topic, timeout_seconds=10)
    define: Any = build_change_log_asset if name == "keyed" else build_file_ingestion_asset
    form: Any = TopicLogConfig if name == "keyed" else TopicConfig
    asset = define(f"shop.{name}", _SCHEMAS[name], source=source)
    op = form(follow_seconds=3600, commit_seconds=0.3, **config)
    paimon = PaimonCatalogResource(warehouse=warehouse, executor="embedded")
    warnings.simplefilter("ignore")
    result = run(asset, paimon, run_config=dg.RunConfig(ops={asset.node_def.name: op}))
    Path(f"{warehouse}-{name}").write_text(failure_text(result), encoding="utf-8")


class Follower:
    """A table and the process that follows the topic for it."""

    def __init__(self, world: World, warehouse: str, name: str) -> None:
        self.name, self.warehouse, self.world = name, warehouse, world
        self.told = Path(f"{warehouse}-{name}")
        self.due: set[str] = set()
        """Messages that a run may end with, now or when it notices."""
        self.ends: Counter[str] = Counter()
        self.config: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        self.told.unlink(missing_ok=True)
        world = self.world
        where = (self.warehouse, world.broker.address, world.topic, self.name, self.config)
        self.process = fork_server().Process(target=follow, args=where)
        self.process.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.ends["killed"] += 1

    def tend(self) -> None:
        """Start it again where it ended; its error must be one that is due."""
        if self.process.is_alive():
            return
        self.process.join()
        if self.told.exists():
            text = self.told.read_text(encoding="utf-8")
            message = next((each for each in _WAYS_OUT if each in text), None)
            assert message in self.due | _PASSING, f"{self.name} ended with {text}"
            self.config = {**self.config, **_WAYS_OUT[message]}
            self.ends[message] += 1
        else:
            assert self.process.exitcode == -9, self.process.exitcode
        self.start()


class Game:
    """The steps, and the checks after them."""

    def __init__(self, broker: Broker, home: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(broker, broker.create(3), self.random)
        self.paimon = PaimonCatalogResource(warehouse=str(home / "lake"), executor="embedded")
        self.followers = [Follower(self.world, str(home / "lake"), name) for name in _SCHEMAS]
        self.steps: Counter[str] = Counter()

    def step(self) -> str:
        step = self.random.choice(_STEPS)
        self.steps[step] += 1
        getattr(self, step)()
        self.tend()
        return step

    def tend(self) -> None:
        for each in self.followers:
            each.tend()

    def allow(self, message: str) -> None:
        for each in self.followers:
            each.due.add(message)

    def send(self) -> None:
        self.world.send()

    def leave_open(self) -> None:
        self.world.leave_open()

    def kill(self) -> None:
        _NEVER.wait(self.random.uniform(0, 3))
        self.random.choice(self.followers).kill()

    def restart(self) -> None:
        _NEVER.wait(1)  # a broker that is killed sooner forgets which records it deleted
        self.world.broker.kill()
        _NEVER.wait(self.random.uniform(0, 15))
        self.world.broker.start()
        self.world.broker.await_partitions(self.world.topic, self.world.partitions)

    def expire(self) -> None:
        self.settle()
        self.allow("cannot continue with partition")  # a position may be before aborted records
        self.world.expire()

    def lose(self) -> None:
        self.settle()
        for each in self.followers:
            each.kill()
        self.allow("cannot continue with partition")
        self.world.lose()
        self.world.send()

    def make_again(self) -> None:
        self.settle()
        self.allow("cannot continue with partition")
        self.world.make_again()
        self.world.send()

    def grow(self) -> None:
        if self.world.partitions == 3:
            self.settle()
            self.followers[0].due.add("has new partitions")
            self.world.partitions = 4
            self.world.broker.grow(self.world.topic, 4)

    def compact(self) -> None:
        for name in _SCHEMAS:
            with suppress(CommitConflictError):
                self._table(name).new_compaction_builder().with_strategy("full").run()

    def settle(self) -> None:
        """Wait until the tables have the rows of the model, once each."""
        self.world.end_open()
        deadline = time.monotonic() + _LONGEST
        while (wrong := self.wrong()) and time.monotonic() < deadline:
            self.tend()
            _NEVER.wait(0.5)
        assert not wrong, wrong
        for each in self.followers:
            each.config = {}

    def wrong(self) -> str:
        """Return the surplus and missing rows of the tables, nothing if they are right."""
        try:
            keyed, every = (self._table(name).to_arrow() for name in ("keyed", "every"))
        except NotFoundError as error:  # not there yet
            return error.message
        found = [*zip(keyed["id"].to_pylist(), keyed["state"].to_pylist(), strict=True)]
        if sorted(found) != sorted(self.world.rows.items()):
            return f"keyed: {set(found) ^ set(self.world.rows.items())}"
        has, should = Counter(every["state"].to_pylist()), Counter(self.world.sent)
        return "" if has == should else f"every: too many {has - should}, too few {should - has}"

    def _table(self, name: str) -> Any:
        return self.paimon.catalog().get_table(f"shop.{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", type=Path, default=Path(".soak-faults"))
    choices = parser.parse_args()
    shutil.rmtree(choices.into, ignore_errors=True)
    choices.into.mkdir(parents=True)
    tempfile.tempdir = str(choices.into.resolve())
    warnings.simplefilter("ignore")
    end, shown = time.monotonic() + choices.minutes * 60, 0.0
    with running_broker() as broker:
        game, taken = Game(broker, choices.into.resolve(), choices.seed), [""]
        try:
            while time.monotonic() < end:
                taken = [*taken[-20:], game.step()]
                if time.monotonic() > shown + 60:
                    shown = time.monotonic()
                    _show(game)
            game.settle()
            _show(game)
        except AssertionError as error:
            raise SystemExit(f"after {taken} and {game.steps.most_common()}: {error}") from error
        finally:
            for each in game.followers:
                each.kill()


def _show(game: Game) -> None:
    ends = {each.name: dict(each.ends) for each in game.followers}
    rows = (len(game.world.rows), len(game.world.sent))
    print(dict(game.steps), ends, "rows", rows, flush=True)


if __name__ == "__main__":
    main()
