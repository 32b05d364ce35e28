"""Shared parts of sensors: their definition, run keys, and ticks over many tables.

Dagster makes one run for one run key, for ever. A table that is rolled back needs the same files
again, and a compaction that failed is still due: then the key gets a number.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import dagster as dg
from msgspec import field

from paimon_assets.assets.resource import PaimonCatalogResource, catalog_resource
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import printable

REQUEST_TAG = "paimon/request"
"""Tag of a requested run: the key of its request, without a number."""
FAILED = frozenset({dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})
SECONDS_PER_TICK = 40.0
"""Dagster ends a tick after 60."""
_MOST_DOUBLINGS = 6

Ticked = dg.SkipReason | dg.SensorResult
Tick = Callable[[dg.SensorEvaluationContext, Any], Ticked]
"""Takes the catalog resource, None for a sensor without one."""

T = TypeVar("T")


def define_sensor(
    name: str,
    description: str,
    tick: Tick,
    *,
    resource_key: str | None,
    seconds: int,
    target: Any = None,
    job_name: str | None = None,
) -> dg.SensorDefinition:
    """Define a sensor that is shipped stopped and ticks every so many seconds."""

    # Dagster hands the resource to whoever calls a sensor directly.
    def evaluate(context: dg.SensorEvaluationContext, **_: Any) -> Ticked:
        paimon: PaimonCatalogResource | None = None
        if resource_key is not None:
            paimon = catalog_resource(context, resource_key)
        return tick(context, paimon)

    decorate = dg.sensor(
        name=name,
        target=target,
        job_name=job_name,
        minimum_interval_seconds=seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        required_resource_keys=None if resource_key is None else {resource_key},
        description=description,
    )
    return decorate(evaluate)


class Requests(Value):
    """The runs that were requested with one key."""

    key: str
    times: int
    status: dg.DagsterRunStatus | None = None
    """The status of the newest of them, None if there is none."""
    ended: float | None = None

    @property
    def run_key(self) -> str:
        return f"{self.key}#{self.times + 1}" if self.times else self.key


def requests_of(instance: dg.DagsterInstance, key: str) -> Requests:
    """Return the runs requested with a key. Cost: one query by a tag."""
    records = instance.get_run_records(dg.RunsFilter(tags={REQUEST_TAG: key}))
    if not records:
        return Requests(key=key, times=0)
    run = records[0].dagster_run
    return Requests(key=key, times=len(records), status=run.status, ended=records[0].end_time)


def retry_wait(ended: float | None, seconds: float, failures: int) -> float:
    """Return the seconds until a run is due again; each failure in a row doubles its pause."""
    pause = seconds * (1 << min(failures - 1, _MOST_DOUBLINGS))
    return (ended or 0.0) + pause - time.time()


def request_once(
    context: dg.SensorEvaluationContext,
    key: str,
    news: str,
    *,
    config: dg.RunConfig | None = None,
    tags: Mapping[str, str] | None = None,
) -> Ticked:
    """Request a run with a key, unless one is requested and has not succeeded yet."""
    before = requests_of(context.instance, key)
    is_pending = before.status not in (None, dg.DagsterRunStatus.SUCCESS)
    if is_pending or context.cursor == before.run_key:
        return dg.SkipReason(
            f"{news} requested already, as run key '{key}'; if that run failed, re-execute it."
        )
    tags = {**(tags or {}), REQUEST_TAG: key}
    request = dg.RunRequest(run_key=before.run_key, run_config=config, tags=tags)
    return dg.SensorResult(run_requests=[request], cursor=before.run_key)


def digest_of(files: Iterable[FolderFile]) -> str:
    """Return a short name of exactly these files, as they are now."""
    text = "\n".join(f"{file.name}\t{file.size}\t{file.modified_ms}" for file in files)
    return hashlib.sha256(printable(text).encode()).hexdigest()[:16]


class Cursor(Value, Generic[T]):
    """The cursor of a sensor on many tables."""

    seen: Mapping[str, T] = field(default_factory=dict)
    """`database.table` → its state at the last tick."""
    first: str = ""
    """The table to begin with, if the tick before ran out of time there."""

    def to_json(self) -> str:
        return json.dumps({"seen": dict(sorted(self.seen.items())), "first": self.first})

    @staticmethod
    def of_json(text: str | None, state_of: Callable[[Any], T]) -> "Cursor[T]":
        """Parse a cursor; one that cannot be read counts as that of the first tick."""
        try:
            members = json.loads(text or "{}")
            seen = {name: state_of(value) for name, value in members["seen"].items()}
            return Cursor(seen=seen, first=str(members["first"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return Cursor()


def visit_tables(
    tables: Sequence[Identifier],
    first: str,
    visit: Callable[[Identifier], None],
    *,
    max_seconds: float = SECONDS_PER_TICK,
) -> tuple[dict[Identifier, PaimonError], str]:
    """Visit tables in turn until the time is over; return errors, and the table to go on with."""
    names = [str(table) for table in tables]
    start = names.index(first) if first in names else 0
    problems: dict[Identifier, PaimonError] = {}
    started = time.monotonic()
    for number, table in enumerate([*tables[start:], *tables[:start]]):
        if number and time.monotonic() - started > max_seconds:
            return problems, str(table)
        try:
            visit(table)
        except PaimonError as error:  # one table that cannot be read stops no other
            problems[table] = error
    return problems, ""
