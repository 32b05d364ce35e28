"""When to try a commit again after a lost race: waits that double, with jitter, a bounded number.

Without jitter the losers of one race would meet in the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.spec.options.all_options import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_TIMEOUT,
    Options,
)

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The limits of retries: count and time."""

    max_retries: int
    """Tries after the first one."""
    min_wait_ms: int
    max_wait_ms: int
    timeout_ms: int | None = None
    """Nothing is tried again later than this after the first try."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """Read the policy from a table's options."""
        return cls(
            max_retries=options.get(COMMIT_MAX_RETRIES),
            min_wait_ms=options.get(COMMIT_MIN_RETRY_WAIT),
            max_wait_ms=options.get(COMMIT_MAX_RETRY_WAIT),
            timeout_ms=options.get(COMMIT_TIMEOUT),
        )

    def is_over(self, lost: int, elapsed_ms: float) -> bool:
        """Whether a commit gives up."""
        late = self.timeout_ms is not None and elapsed_ms >= self.timeout_ms
        return late or lost > self.max_retries

    def wait_ms(self, lost: int, random: Callable[[], float]) -> float:
        """Return how long to wait.

        >>> RetryPolicy(max_retries=9, min_wait_ms=10, max_wait_ms=1000).wait_ms(3, lambda: 0.5)
        30.0
        """
        doubled: int = self.min_wait_ms << min(lost - 1, _MOST_DOUBLINGS)
        return min(self.max_wait_ms, doubled) * (0.5 + random() / 2)
