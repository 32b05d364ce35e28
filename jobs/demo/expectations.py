"""The rows that the demo's tables must hold, computed from the source by plain pandas.

Independent of `change_log` and of the engine: `expected_flights` reads the data file and
never sees a change; `without_padding` and `with_padding` replay the change files with a sort, as
`sequence.field` promises; `difference` compares a table with an expectation by value.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from jobs.demo.nycflights import data_file

RELATIVE_TOLERANCE = 1e-12
KEY = ["month", "time_hour", "carrier", "flight"]


@functools.cache
def expected_flights(every: int = 1) -> pd.DataFrame:
    """Every flight that departed, in its last state: 328,521 rows for the whole year.

    Read once, for three comparisons: whoever takes it leaves it as it is.
    """
    source = pd.read_csv(data_file("flights.csv.zip"))
    source = source[source.index % every == 0]
    flown = source.dropna(subset=["dep_time"]).copy()
    flown["time_hour"] = pd.to_datetime(flown["time_hour"]).dt.tz_localize(None)
    flown["status"] = flown["arr_delay"].isna().map({True: "diverted", False: "arrived"})
    flown["op"] = "+U"
    flown["op_time"] = (
        flown["time_hour"]
        + pd.to_timedelta(flown["minute"] + flown["dep_delay"], unit="min")
        + pd.to_timedelta(flown["flight"] % 60, unit="s")
        + pd.to_timedelta(flown["air_time"].fillna(6 * 60), unit="min")
    )
    return flown.drop(columns=["year", "hour", "minute"])


def expected_daily_delays(every: int = 1) -> pd.DataFrame:
    """Flights per day and airport: how many, how late, on how old planes, in how much wind."""
    flights = expected_flights(every)
    planes = pd.read_csv(data_file("planes.csv"))[["tailnum", "year"]].rename(
        columns={"year": "built"}
    )
    weather = pd.read_csv(data_file("weather.csv"))[["origin", "time_hour", "wind_speed"]]
    weather["time_hour"] = pd.to_datetime(weather["time_hour"]).dt.tz_localize(None)
    joined = flights.merge(planes, on="tailnum", how="left").merge(
        weather, on=["origin", "time_hour"], how="left"
    )
    joined["age"] = 2013 - joined["built"]
    joined["diverted"] = joined["status"] == "diverted"
    return joined.groupby(["month", "day", "origin"], as_index=False).agg(
        flights=("flight", "size"),
        diverted=("diverted", "sum"),
        mean_dep_delay=("dep_delay", "mean"),
        mean_arr_delay=("arr_delay", "mean"),
        mean_plane_age=("age", "mean"),
        mean_wind_speed=("wind_speed", "mean"),
    )


def expected_departures(every: int = 1, flights_in_mean: int = 50) -> pd.DataFrame:
    """Every flight's delay, and the mean of its carrier's last departures: by running totals."""
    columns = [*KEY, "dep_delay"]
    flown = expected_flights(every)[columns].sort_values(["carrier", "time_hour", "flight"])
    carriers = flown.groupby("carrier")
    total = carriers["dep_delay"].cumsum()
    before = total.groupby(flown["carrier"]).shift(flights_in_mean, fill_value=0)
    count = (carriers.cumcount() + 1).clip(upper=flights_in_mean)
    return flown.assign(carrier_delay=(total - before) / count)


def with_padding(files: Sequence[Path]) -> int:
    """Rows that a key keeps if, within one second, additions come after retractions."""
    changes = _keys_times_kinds(files)
    changes["adds"] = changes["op"].isin(["+I", "+U"])
    return _count_rows_left(changes, ["key", "op_time", "adds"])


def without_padding(files: Sequence[Path]) -> int:
    """Rows that a key keeps if, within one second, whatever arrived last wins."""
    return _count_rows_left(_keys_times_kinds(files), ["key", "op_time"])


def difference(actual: pa.Table, expected: pd.DataFrame, key: Sequence[str] = KEY) -> str | None:
    """Describe how a table differs from its expectation; None if all rows and columns agree."""
    got = actual.to_pandas(date_as_object=False)
    if set(got.columns) != set(expected.columns):
        return f"columns differ: {sorted(set(got.columns) ^ set(expected.columns))}"
    if len(got) != len(expected):
        return f"{len(got):,} rows instead of {len(expected):,}"
    columns = list(expected.columns)
    got, want = (
        frame[columns].sort_values(list(key), ignore_index=True) for frame in (got, expected)
    )
    for column in columns:
        wrong = ~_same(got[column], want[column])
        if wrong.any():
            row = int(wrong.argmax())
            where = ", ".join(f"{name}={want[name][row]}" for name in key)
            return (
                f"column {column}: {int(wrong.sum()):,} rows differ, first at {where}: "
                f"{got[column][row]} instead of {want[column][row]}"
            )
    return None


def _same(got: pd.Series, want: pd.Series) -> npt.NDArray[np.bool_]:
    """Row by row: both missing, or equal; means may differ in the order they were summed in."""
    both_missing = (got.isna() & want.isna()).to_numpy()
    if pd.api.types.is_numeric_dtype(want):
        near = np.isclose(_doubles(got), _doubles(want), rtol=RELATIVE_TOLERANCE, atol=0)
        return np.asarray(both_missing | near)
    if pd.api.types.is_datetime64_any_dtype(want):
        got, want = (column.astype("datetime64[ns]") for column in (got, want))
    equal = (got == want).fillna(value=False).to_numpy(dtype=bool)
    return np.asarray(both_missing | equal)


def _doubles(column: pd.Series) -> npt.NDArray[np.float64]:
    return np.asarray(column.to_numpy("float64", na_value=np.nan))


def _keys_times_kinds(files: Sequence[Path]) -> pd.DataFrame:
    columns = [*KEY, "op_time", "op"]
    changes = pd.concat([pd.read_parquet(path, columns=columns) for path in files])
    changes["key"] = changes.groupby(KEY, sort=False).ngroup()
    return changes


def _count_rows_left(changes: pd.DataFrame, order: list[str]) -> int:
    winners = changes.sort_values(order, kind="stable").drop_duplicates("key", keep="last")
    return int(winners["op"].isin(["+I", "+U"]).sum())
