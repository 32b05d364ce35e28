"""The change log of 336,776 flights, as a booking system would have emitted it.

    scheduled   +I                   weeks before, with the columns known then
    departed    -U scheduled         both at one operation time: the second of departure
                +U departed
    landed      -U departed          both at one operation time: the second of landing
                +U arrived|diverted
    cancelled   -D scheduled         where the flight never departed

The operation time has a precision of seconds and is shared by the -U and +U of one update, so it
alone cannot order them. And the log does not arrive in order: some updates are late by hours or
days, some -U come after their +U, and whole files overtake each other. The disorder is drawn from
a fixed seed, so every run of the demo sees the same files.

Within one flight the instants differ (scheduled < departed < landed, or scheduled < cancelled):
nothing but -U and +U of one update share a second.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from jobs.demo.schemas import FLIGHTS

Seconds = npt.NDArray[np.int64]

SEED = 2013
UNKNOWN_FLYING_MINUTES = 360
"""A diverted flight has no flying time: the airline closes it six hours after departure."""

LATE_SHARE = 0.02
MOST_LATE_SECONDS = 3 * 86_400
LATE_BEFORE_IMAGE_SHARE = 0.10
MOST_LATE_BEFORE_IMAGE_SECONDS = 4 * 3_600

KNOWN_WHEN_DEPARTED = ("dep_time", "dep_delay")
KNOWN_WHEN_LANDED = ("arr_time", "arr_delay", "air_time")

_ARROW = {"INT": pa.int32(), "STRING": pa.string(), "TIMESTAMP(0)": pa.timestamp("ms")}
CHANGE_SCHEMA = pa.schema(
    pa.field(it.name, _ARROW[str(it.type)], nullable=it.name not in FLIGHTS.primary_keys)
    for it in FLIGHTS.fields
)
"""Columns of a change file. Parquet has no seconds: both timestamps hold whole ones as millis."""


def derive_changes(flights: pd.DataFrame) -> pa.Table:
    """All changes of `flights`, in the order in which they leave the booking system.

    Args:
        flights: As `nycflights.read_flights` returns them.

    Returns:
        Five rows for a flight that departed, two for a cancelled one, with `CHANGE_SCHEMA`.

    Cost:
        4 s and 1 GB for the whole year (1,659,115 changes); no loop over rows.
    """
    random = np.random.default_rng(SEED)
    planned = flights["time_hour"].to_numpy("datetime64[s]").astype(np.int64) + _seconds(
        flights["minute"]
    )
    went = flights["dep_time"].notna().to_numpy()
    gone, cancelled = flights[went], flights[~went]
    booked = planned - random.integers(30 * 86_400, 60 * 86_400, len(flights))
    departed = planned[went] + _seconds(gone["dep_delay"]) + gone["flight"].to_numpy(np.int64) % 60
    landed = departed + _seconds(gone["air_time"].fillna(UNKNOWN_FLYING_MINUTES))
    called_off = planned[~went] - random.integers(600, 6 * 3_600, len(cancelled))

    in_air = _state(gone, "departed", KNOWN_WHEN_LANDED)
    arrived = _state(gone, "arrived", ())
    arrived.loc[arrived["arr_delay"].isna(), "status"] = "diverted"
    events = [
        _event(_booking_state(flights), "+I", booked),
        _event(_booking_state(gone), "-U", departed),
        _event(in_air, "+U", departed),
        _event(in_air, "-U", landed),
        _event(arrived, "+U", landed),
        _event(_booking_state(cancelled), "-D", called_off),
    ]
    late_departure, late_landing = (_delays(random, len(gone)) for _ in range(2))
    sent = np.concatenate(
        [
            booked + _delays(random, len(flights)),
            departed + late_departure + _before_image_delays(random, len(gone)),
            departed + late_departure,
            landed + late_landing + _before_image_delays(random, len(gone)),
            landed + late_landing,
            called_off + _delays(random, len(cancelled)),
        ]
    )
    # Stable: an undelayed -U stays before the +U of its second.
    return pa.concat_tables(events).take(np.argsort(sent, kind="stable"))


def split_into_files(changes: pa.Table, files: int) -> Iterator[pa.Table]:
    """Cut the log into files in order of arrival; one may overtake three written before it."""
    random = np.random.default_rng(SEED)
    size = -(-changes.num_rows // files)
    places = np.arange(files) + random.uniform(0, 4, files)
    for number in np.argsort(places, kind="stable"):
        yield changes.slice(int(number) * size, size)


def _seconds(minutes: "pd.Series[int]") -> Seconds:
    return np.asarray(minutes, dtype=np.int64) * 60


def _booking_state(flights: pd.DataFrame) -> pd.DataFrame:
    return _state(flights, "scheduled", (*KNOWN_WHEN_DEPARTED, *KNOWN_WHEN_LANDED))


def _state(flights: pd.DataFrame, status: str, unknown: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of the booking system in `status`: columns `unknown` are still empty."""
    state = flights.assign(status=status)
    nothing = pd.Series(pd.NA, index=state.index, dtype="Int32")
    return state.assign(**dict.fromkeys(unknown, nothing))


def _event(state: pd.DataFrame, op: str, op_time: Seconds) -> pa.Table:
    stamped = state.assign(op=op, op_time=op_time.astype("datetime64[s]"))
    return pa.Table.from_pandas(stamped, schema=CHANGE_SCHEMA, preserve_index=False)


def _delays(random: np.random.Generator, count: int) -> Seconds:
    """Seconds on the way: minutes for most messages, up to days for a few."""
    usual = random.integers(0, 300, count)
    late = random.integers(0, MOST_LATE_SECONDS, count)
    return np.where(random.random(count) < LATE_SHARE, late, usual)


def _before_image_delays(random: np.random.Generator, count: int) -> Seconds:
    """Seconds by which a -U is behind its +U: none for most, up to hours for a few."""
    late = random.integers(1, MOST_LATE_BEFORE_IMAGE_SECONDS, count)
    return np.where(random.random(count) < LATE_BEFORE_IMAGE_SHARE, late, 0)
