"""The demo's tables, as declared."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from paimon_assets.engine.spec.schema.schema import Schema

BUCKETS = "2"

_FLIGHT = {
    "month": ("INT", "1 to 12, of the planned departure"),
    "time_hour": ("TIMESTAMP(0)", "hour of the planned departure, UTC"),
    "carrier": ("STRING", "airline, two letters"),
    "flight": ("INT", "number of the flight"),
    "day": ("INT", "of the month"),
    "origin": ("STRING", "EWR, JFK or LGA"),
    "dest": ("STRING", "airport of destination"),
    "tailnum": ("STRING", "the plane; missing where none was assigned"),
    "distance": ("INT", "miles"),
    "sched_dep_time": ("INT", "planned departure, local clock, hhmm"),
    "sched_arr_time": ("INT", "planned arrival, local clock, hhmm"),
    "dep_time": ("INT", "departure, local clock, hhmm"),
    "dep_delay": ("INT", "minutes; negative is early"),
    "arr_time": ("INT", "arrival, local clock, hhmm"),
    "arr_delay": ("INT", "minutes; negative is early"),
    "air_time": ("INT", "minutes in the air; missing where diverted"),
    "status": ("STRING", "scheduled, departed, arrived or diverted"),
    "op": ("STRING", "kind of the last change: +I, -U, +U, -D"),
    "op_time": (
        "TIMESTAMP(0)",
        "when that happened, UTC, to the second; -U and +U of one update share it",
    ),
}
"""Column of a flight → its type and description."""


def _flights(names: Iterable[str], **declared: Any) -> Schema:
    """Declare a table of flights with some columns."""
    columns = {name: _FLIGHT[name] for name in names}
    return Schema.of(
        {name: kind for name, (kind, _) in columns.items()},
        comments={name: text for name, (_, text) in columns.items()},
        **declared,
    )


FLIGHTS = _flights(
    _FLIGHT,
    partition_keys=["month"],
    primary_keys=["month", "time_hour", "carrier", "flight"],
    options={
        "bucket": BUCKETS,
        "sequence.field": "op_time",
        "sequence.auto-padding": "row-kind-flag",
        "rowkind.field": "op",
    },
    comment="Every flight that left New York in 2013, in its last state.",
)

FLIGHTS_UNPADDED = replace(
    FLIGHTS,
    options={"bucket": BUCKETS, "sequence.field": "op_time", "rowkind.field": "op"},
    comment="The same changes without padding: flights whose -U came after its +U are lost.",
)

FLIGHT_ARCHIVE = _flights(
    [name for name in _FLIGHT if name not in ("op", "op_time")],
    partition_keys=["month"],
    comment="Flights of seven months: foreign files, read in place, and rows of our own.",
)

WEATHER = Schema.of(
    {
        "origin": "STRING",
        "time_hour": "TIMESTAMP(0)",
        "temp": "DOUBLE",
        "dewp": "DOUBLE",
        "humid": "DOUBLE",
        "wind_dir": "DOUBLE",
        "wind_speed": "DOUBLE",
        "wind_gust": "DOUBLE",
        "precip": "DOUBLE",
        "pressure": "DOUBLE",
        "visib": "DOUBLE",
    },
    comment="Hourly weather at the three airports.",
    comments={
        "time_hour": "UTC",
        "temp": "degrees Fahrenheit",
        "humid": "per cent",
        "wind_dir": "degrees",
        "wind_speed": "miles per hour",
        "precip": "inches",
        "pressure": "millibars, at sea level",
        "visib": "miles",
    },
)

PLANES = Schema.of(
    {
        "tailnum": "STRING",
        "year": "INT",
        "type": "STRING",
        "manufacturer": "STRING",
        "model": "STRING",
        "engines": "INT",
        "seats": "INT",
        "speed": "INT",
        "engine": "STRING",
    },
    primary_keys=["tailnum"],
    options={"bucket": "1"},
    comment="The planes, by tail number.",
    comments={"year": "built in", "speed": "cruising, miles per hour; mostly unknown"},
)

DAILY_DELAYS = Schema.of(
    {
        "month": "INT",
        "day": "INT",
        "origin": "STRING",
        "flights": "BIGINT",
        "diverted": "BIGINT",
        "mean_dep_delay": "DOUBLE",
        "mean_arr_delay": "DOUBLE",
        "mean_plane_age": "DOUBLE",
        "mean_wind_speed": "DOUBLE",
    },
    primary_keys=["month", "day", "origin"],
    options={"bucket": "1"},
    comment="Flights per day and airport: how many, how late, on how old planes, in how much wind.",
    comments={
        "mean_dep_delay": "minutes",
        "mean_arr_delay": "minutes, of the flights that arrived",
        "mean_plane_age": "years, of the planes whose age is known",
        "mean_wind_speed": "miles per hour, at the planned hour of departure",
    },
)

DEPARTURES = _flights(
    ("month", "time_hour", "carrier", "flight", "dep_delay"),
    options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    comment="Every flight that departed, in an append table that takes further columns.",
)

NARROWING = [
    {
        "action": "updateColumnType",
        "fieldNames": ["dep_delay"],
        "newDataType": "TINYINT",
        "keepNullability": True,
    }
]
"""A change of `FLIGHTS` that would lose values: minutes beyond two hours."""
