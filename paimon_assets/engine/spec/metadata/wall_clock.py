"""The local wall clock taken as if it were UTC: how data files say when they were made."""

import time


def wall_clock_ms(epoch_ms: int) -> int:
    """Return this machine's local time at an instant, both in milliseconds."""
    return epoch_ms + time.localtime(epoch_ms / 1000).tm_gmtoff * 1000


def instant_ms(wall_ms: int) -> int:
    """Return the instant, in epoch milliseconds, of a local time of this machine.

    >>> instant_ms(wall_clock_ms(1_700_000_000_123))
    1700000000123
    """
    seconds, millis = divmod(wall_ms, 1000)
    return int(time.mktime((*time.gmtime(seconds)[:8], -1))) * 1000 + millis
