"""The local wall clock taken as if it were UTC: how data files say when they were made."""

import time


def wall_clock_ms(epoch_ms: int) -> int:
    """Return what this machine's clock on the wall shows at a moment, both in milliseconds."""
    return epoch_ms + time.localtime(epoch_ms / 1000).tm_gmtoff * 1000


def instant_ms(wall_ms: int) -> int:
    """Return the moment, in epoch milliseconds, at which this machine's wall clock shows so much.

    >>> instant_ms(wall_clock_ms(1_700_000_000_123))
    1700000000123
    """
    seconds, millis = divmod(wall_ms, 1000)
    return int(time.mktime((*time.gmtime(seconds)[:8], -1))) * 1000 + millis
