"""The server's numbers in Prometheus' text: its answers, and the health of the tables it serves."""

import time
from collections.abc import Iterator, Mapping
from threading import Lock

import pyarrow as pa
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from paimon_assets.engine.control.catalog.catalog import Catalog
from paimon_assets.engine.table.system.system_table import GlobalSystemTable
from paimon_assets.server.principals import Action, Principal

_NUMBERS: Mapping[str, str] = {
    "score": "100 needs nothing, 50 or less has reached a limit of upkeep.",
    "row_count": "Physical rows.",
    "total_bytes": "Bytes of data files.",
    "file_count": "Data files.",
    "small_file_count": "Files below half of the target size that share a bucket.",
    "most_runs": "Sorted runs that a read of one bucket merges, or files it opens.",
    "level_0_files": "Files that no compaction has seen.",
    "waiting_files": "Files of postponed rows, which no read shows yet.",
    "deleted_rows": "Rows that a full compaction would drop.",
    "snapshot_count": "Snapshots.",
    "oldest_snapshot_ms": "Time of the oldest snapshot, milliseconds since 1970.",
    "newest_snapshot_ms": "Time of the newest snapshot, milliseconds since 1970.",
    "last_compaction_ms": "Time of the newest file of a compaction, milliseconds since 1970.",
    "consumer_lag": "Snapshots that the slowest consumer is behind.",
    "iceberg_behind": "Commits that readers of Iceberg do not see in full.",
}
"""Numbers of `TableHealth` that are shown, and their descriptions."""
_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """Counts and times of this process's answers, and the health of the tables of a catalog.

    Health is measured again after `health_seconds`, from the manifests of all tables; None shows
    none.
    """

    def __init__(self, catalog: Catalog, health_seconds: float | None) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "paimon_request_seconds",
            "Answers of the catalog, and the time from the first byte of the head to each.",
            ("operation", "status"),
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._catalog = catalog
        self._health_seconds = health_seconds
        self._health: tuple[float, pa.Table] | None = None
        self._lock = Lock()

    def count(self, operation: str, status: int, seconds: float) -> None:
        self._seconds.labels(operation, str(status)).observe(seconds)

    def text(self, principal: Principal) -> str:
        """Return all numbers, of tables those that a principal may describe."""
        text = generate_latest(self._registry)
        if self._health_seconds is not None:
            text += generate_latest(_OfTables(self._current_health(), principal))
        return text.decode()

    def _current_health(self) -> pa.Table:
        with self._lock:
            now = time.monotonic()
            if self._health is None or now - self._health[0] >= (self._health_seconds or 0):
                tables = GlobalSystemTable(catalog=self._catalog, options={}, kind="table_health")
                self._health = time.monotonic(), tables.to_arrow()
            return self._health[1]


class _OfTables(Collector):
    """Gauges of the health of tables, one sample a table."""

    def __init__(self, health: pa.Table, principal: Principal) -> None:
        self._rows = [
            row
            for row in health.to_pylist()
            if principal.may(Action.DESCRIBE, row["database_name"], row["table_name"])
        ]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text in _NUMBERS.items():
            gauge = GaugeMetricFamily(f"paimon_table_{name}", text, labels=("database", "table"))
            for row in self._rows:
                if row[name] is not None:
                    gauge.add_metric((row["database_name"], row["table_name"]), row[name])
            yield gauge
