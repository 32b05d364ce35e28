"""Days since 1970 ⇄ year, month and day of the proleptic Gregorian calendar, for whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

SECONDS_PER_DAY = 86_400
FIRST_DAY = -719_528
"""0000-01-01, where the calendars of Paimon's types begin."""
LAST_DAY = 2_932_896
"""9999-12-31."""
DAYS_PER_CYCLE = 3_652_425
"""Days of 10,000 years, after which the same dates come again."""

_DAYS_BEFORE_MARCH = np.array([306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275])
"""Days from 1 March to the first of each month, January first; the year begins in March."""
_MONTH_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def days_of(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    """Return days since 1970-01-01; days may leave their month, months must be 1 to 12."""
    of_march = year - (month <= 2)  # January and February end the year before
    leap_days = of_march // 4 - of_march // 100 + of_march // 400
    since_march: Int64s = _DAYS_BEFORE_MARCH[month - 1] + day - 1
    return of_march * 365 + leap_days + since_march - 719_468


def month_lengths(year: Int64s, month: Int64s) -> Int64s:
    """Return how many days the months have."""
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths: Int64s = _MONTH_LENGTHS[month - 1] + ((month == 2) & is_leap)
    return lengths
