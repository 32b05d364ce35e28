"""Metrics: counts and times of requests by operation, in Prometheus' text format."""

from collections import Counter
from threading import Lock


class Metrics:
    """What this process has answered since it started."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count one answer."""
        with self._lock:
            self._counts[operation, status] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]  # because it adds floats

    def text(self) -> str:
        """Return all of them."""
        with self._lock:
            counts, seconds = sorted(self._counts.items()), sorted(self._seconds.items())
        lines = ["# TYPE paimon_requests_total counter"]
        lines += [
            f'paimon_requests_total{{operation="{operation}",status="{status}"}} {count}'
            for (operation, status), count in counts
        ]
        lines.append("# TYPE paimon_request_seconds_total counter")
        lines += [
            f'paimon_request_seconds_total{{operation="{operation}"}} {total:.6f}'
            for operation, total in seconds
        ]
        return "\n".join(lines) + "\n"
