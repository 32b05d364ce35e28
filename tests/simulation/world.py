"""A world: one storage, its actors and their clock; our code runs in it as it is.

`simulated` puts it below the product: storage, time, chance and threads are those of the world. A
process's memory (its module variables) is its actor's own, and ends when the actor dies.
"""

import math
import os
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets.assets.files import ledger
from paimon_assets.engine.control import clock, file_store, manifests, write_planning
from paimon_assets.engine.control.commit import file_store_commit
from paimon_assets.engine.control.managers import commit_history, snapshot_manager
from paimon_assets.engine.fileio import (
    atomic,
    local,
    object_clients,
    object_store,
    object_uploads,
    opening,
    ranged,
    request_planner,
)
from tests.simulation.disks import Bucket, Disk, Hdfs
from tests.simulation.scheduler import Actor, Call
from tests.simulation.store import Store

PART_BYTES = 600
"""Files of rows are larger, so each is uploaded to S3 in parts."""


class Kind(StrEnum):
    """A kind of storage; its value is the path of a warehouse there."""

    DISK = "/simulated/warehouse"
    S3 = "s3://simulated/warehouse"
    HDFS = "hdfs://simulated/warehouse"


@dataclass(slots=True)
class World:
    """The storage and clock that actors share."""

    kind: Kind
    store: Store
    outside: Actor = field(init=False)
    """Prepares and looks, beside the actors. Its ids differ from those of the scene."""

    def __post_init__(self) -> None:
        self.outside = Actor("outside", Random(self.store.numbers))  # noqa: S311

    def actor(self) -> Actor:
        """Return the actor of this turn."""
        scheduler = self.store.scheduler
        acting = None if scheduler is None else scheduler.current
        return acting or self.outside

    def path_of(self, location: str) -> str:
        """Return where the storage has a file of the warehouse."""
        return self.folder + location.removeprefix(self.kind.value)

    @property
    def folder(self) -> str:
        """The warehouse's path on the storage."""
        return "/warehouse" if self.kind is Kind.HDFS else "/simulated/warehouse"

    def sleep(self, millis: float) -> None:
        """Let other actors run; time passes."""
        self.store.call(Call("sleep"), lambda: None)
        self.store.now_ms += int(millis)

    def random_bytes(self, size: int) -> bytes:
        return self.actor().random.randbytes(size)

    def random_fraction(self) -> float:
        return self.actor().random.random()

    def now_ns(self) -> int:
        return self.store.now_ms * 1_000_000


_HERE: list[World] = []
"""The world that is simulated now; one at most."""


class _Memory:
    """The memory of a module, of which each process has its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(_remember(self, self._make), name)


for _name in ("__getitem__", "__setitem__", "__iter__", "__contains__", "__len__"):

    def _pass_on(self: Any, *arguments: Any, _name: str = _name) -> Any:
        return getattr(_remember(self, self._make), _name)(*arguments)

    setattr(_Memory, _name, _pass_on)


def _remember(key: object, make: Callable[[], Any]) -> Any:
    memory = _HERE[-1].actor().memory
    if key not in memory:
        memory[key] = make()
    return memory[key]


def _by_process(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a cached function whose cache is a process's own."""
    return lambda *arguments: _remember((make, arguments), lambda: make(*arguments))


def _at_once(_: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **more: Any) -> Any:
    """Run a pool's task now: an actor has one thread."""
    future = Future[Any]()
    try:
        future.set_result(call(*args, **more))
    except Exception as error:  # noqa: BLE001 - `result` raises it
        future.set_exception(error)
    return future


def _once(prop: Any, instance: Any, _: object = None) -> Any:
    """Compute a cached property without the lock of its class, which Python 3.11 holds."""
    if instance is None:
        return prop
    if prop.attrname not in instance.__dict__:
        instance.__dict__[prop.attrname] = prop.func(instance)
    return instance.__dict__[prop.attrname]


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Put the product on a world, in the block."""
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(world.store)
        for module in (local, atomic):
            patch.setattr(module, "Path", disk.path)
        for name in ("os", "shutil"):
            patch.setattr(local, name, getattr(disk, name))
        patch.setattr(pa, "OSFile", disk.open_file)
        bucket = Bucket(world.store, "/simulated")
        patch.setattr(object_clients, "client_of", lambda *_: bucket)
        patch.setattr(object_clients, "listing_of", lambda *_: SimpleNamespace(pages=bucket.pages))
        patch.setattr(object_store, "_PROVEN", _Memory(set))
        patch.setattr(object_store, "_PROOFS", _Memory(dict))
        patch.setattr(object_store, "_KEPT_ENDS", _Memory(lambda: ranged.KeptEnds(1 << 20)))
        opened = SimpleNamespace(open_writer=bucket.open_writer)
        patch.setattr(object_store, "import_module", lambda _: opened)
        patch.setattr(object_uploads, "PART_BYTES", PART_BYTES)
        patch.setattr(opening, "_open_hdfs", lambda _: Hdfs(world.store))
        patch.setattr(snapshot_manager, "_NEWEST_SEEN", _Memory(dict))
        patch.setattr(file_store, "_SAME_TABLES", _Memory(dict))
        patch.setattr(file_store_commit, "_TURNS", _Memory(dict))
        patch.setattr(request_planner, "_SMALL", _Memory(dict))
        patch.setattr(ledger, "_SEEN", _Memory(OrderedDict))
        for module, name in ((commit_history, "_seen_of"), (write_planning, "_cached_buckets")):
            patch.setattr(module, name, _by_process(getattr(module, name).__wrapped__))
        patch.setattr(cached_property, "__get__", _once)
        patch.setattr(time, "time_ns", world.now_ns)
        patch.setattr(clock.SystemClock, "sleep_millis", lambda _, millis: world.sleep(millis))
        patch.setattr(os, "urandom", world.random_bytes)
        patch.setattr(random, "random", world.random_fraction)
        patch.setattr(ThreadPoolExecutor, "submit", _at_once)
        patch.setattr(manifests.SHARED_CACHE, "_items", _Memory(OrderedDict))
        patch.setattr(manifests.SHARED_CACHE, "_held_bytes", 0)
        # The bytes of all runs of a world are counted together: a full cache would drop entries.
        patch.setattr(manifests.SHARED_CACHE, "_max_bytes", math.inf)
        _HERE.append(world)
        try:
            yield
        finally:
            _HERE.pop()
