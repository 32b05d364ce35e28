"""The demo's tables, as declared."""

from paimon_assets.engine.spec.schema.schema import Schema

BUCKETS = "2"

_FLIGHT_COLUMNS = {
    "month": "INT",
    "time_hour": "TIMESTAMP(0)",
    "carrier": "STRING",
    "flight": "INT",
    "day": "INT",
    "origin": "STRING",
    "dest": "STRING",
    "tailnum": "STRING",
    "distance": "INT",
    "sched_dep_time": "INT",
    "sched_arr_time": "INT",
    "dep_time": "INT",
    "dep_delay": "INT",
    "arr_time": "INT",
    "arr_delay": "INT",
    "air_time": "INT",
    "status": "STRING",
    "op": "STRING",
    "op_time": "TIMESTAMP(0)",
}

_FLIGHT_COMMENTS = {
    "month": "1 to 12, of the planned departure",
    "time_hour": "hour of the planned departure, UTC",
    "carrier": "airline, two letters",
    "flight": "number of the flight",
    "day": "of the month",
    "origin": "EWR, JFK or LGA",
    "dest": "airport of destination",
    "tailnum": "the plane; missing where none was assigned",
    "distance": "miles",
    "sched_dep_time": "planned departure, local clock, hhmm",
    "sched_arr_time": "planned arrival, local clock, hhmm",
    "dep_time": "departure, local clock, hhmm",
    "dep_delay": "minutes; negative is early",
    "arr_time": "arrival, local clock, hhmm",
    "arr_delay": "minutes; negative is early",
    "air_time": "minutes in the air; missing where diverted",
    "status": "scheduled, departed, arrived or diverted",
    "op": "kind of the last change: +I, -U, +U, -D",
    "op_time": "when that happened, UTC, to the second; -U and +U of one update share it",
}

FLIGHTS = Schema.of(
    _FLIGHT_COLUMNS,
    partition_keys=["month"],
    primary_keys=["month", "time_hour", "carrier", "flight"],
    options={
        "bucket": BUCKETS,
        "sequence.field": "op_time",
        "sequence.auto-padding": "row-kind-flag",
        "rowkind.field": "op",
    },
    comment="Every flight that left New York in 2013, in its last state.",
    comments=_FLIGHT_COMMENTS,
)

FLIGHTS_UNPADDED = Schema.of(
    _FLIGHT_COLUMNS,
    partition_keys=["month"],
    primary_keys=["month", "time_hour", "carrier", "flight"],
    options={"bucket": BUCKETS, "sequence.field": "op_time", "rowkind.field": "op"},
    comment="The same changes without padding: flights whose -U came after its +U are lost.",
    comments=_FLIGHT_COMMENTS,
)

_NOT_ARCHIVED = ("op", "op_time")
_KEY_AND_DELAY = ("month", "time_hour", "carrier", "flight", "dep_delay")

FLIGHT_ARCHIVE = Schema.of(
    {name: kind for name, kind in _FLIGHT_COLUMNS.items() if name not in _NOT_ARCHIVED},
    partition_keys=["month"],
    comment="Flights of seven months: files of others, read where they lie, and rows of our own.",
    comments={name: text for name, text in _FLIGHT_COMMENTS.items() if name not in _NOT_ARCHIVED},
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

DEPARTURES = Schema.of(
    {name: _FLIGHT_COLUMNS[name] for name in _KEY_AND_DELAY},
    options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    comment="Every flight that departed, in an append table that takes further columns.",
    comments={name: _FLIGHT_COMMENTS[name] for name in _KEY_AND_DELAY},
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
