"""The landing folder: the files of the demo "arrive" here, once.

The source never changes, so a file that is there is right; missing files are written again. A
file appears whole, under its final name, or not at all.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.demo.home import LANDING, STORE
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.opening import file_io_for

FLIGHTS_FOLDER = "flights"
WEATHER_FOLDER = "weather"
DEFAULT_FILES = 16
_SOURCE_NOTE = "_source.json"


def seen_at(folder: str) -> str:
    """Return where the tables find a folder of `LANDING`."""
    return f"{STORE}/{folder}" if STORE else str(LANDING / folder)


def deliver(folder: str, options: Mapping[str, str]) -> None:
    """Upload the missing files of a folder of `LANDING` to the tables' storage."""
    if not STORE:
        return
    store = file_io_for(STORE, options)
    for path in sorted((LANDING / folder).rglob("*")):
        target = f"{STORE}/{path.relative_to(LANDING).as_posix()}"
        if path.is_file() and not store.exists(target):
            store.write_bytes(target, path.read_bytes())


def receive_changes(landing: Path, *, every: int, files: int) -> list[Path]:
    """Put the change files of the flights into `landing/flights`.

    Args:
        landing: The landing folder; created where missing.
        every: 1 for all flights, n for every n-th.
        files: How many files the log arrives in; their names count the order of arrival.

    Returns:
        The files that were not there before.

    Raises:
        InvalidInputError: The folder holds files made with other numbers.
    """
    folder = landing / FLIGHTS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    _keep_to(folder, {"every": every, "files": files})
    paths = change_files(landing, files)
    if all(path.exists() for path in paths):
        return []
    from jobs.demo.change_log import derive_changes, split_into_files
    from jobs.demo.nycflights import read_flights

    parts = split_into_files(derive_changes(read_flights(every)), files)
    return _write_missing(zip(paths, parts, strict=True))


def change_files(landing: Path, files: int) -> list[Path]:
    """The paths of the change files, in the order of arrival."""
    return [
        landing / FLIGHTS_FOLDER / f"changes-{number + 1:03d}.parquet" for number in range(files)
    ]


def arrived_changes(landing: Path) -> list[Path]:
    """The change files that are there, in the order of arrival."""
    return sorted((landing / FLIGHTS_FOLDER).glob("changes-*.parquet"))


def scale_of(landing: Path) -> int:
    """Every how-manyth flight is in the change files of `landing`; 1 where none were received."""
    note = landing / FLIGHTS_FOLDER / _SOURCE_NOTE
    return int(json.loads(note.read_text())["every"]) if note.exists() else 1


def receive_weather(landing: Path) -> list[Path]:
    """Put the weather into `landing/weather`, a file per month; return those not there before."""
    from jobs.demo.nycflights import read_weather

    folder = landing / WEATHER_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    weather = pa.Table.from_pandas(read_weather(), preserve_index=False)
    months = weather["month"].to_numpy()
    kept = weather.drop_columns(["year", "month", "day", "hour"])
    return _write_missing(
        (folder / f"weather-2013-{month:02d}.parquet", kept.filter(pa.array(months == month)))
        for month in range(1, 13)
    )


def _write_missing(parts: Iterator[tuple[Path, pa.Table]]) -> list[Path]:
    written = []
    for path, rows in parts:
        if not path.exists():
            unfinished = path.with_name(f"_{path.name}.unfinished")
            pq.write_table(rows, unfinished)
            unfinished.rename(path)
            written.append(path)
    return written


def _keep_to(folder: Path, numbers: dict[str, int]) -> None:
    note = folder / _SOURCE_NOTE
    if not note.exists():
        note.write_text(json.dumps(numbers))
        return
    before = json.loads(note.read_text())
    if before != numbers:
        stored, asked = (
            " and ".join(f"{name}={value}" for name, value in given.items())
            for given in (before, numbers)
        )
        raise InvalidInputError(
            f"{folder} holds the change files of {stored}, not of {asked}: run with those numbers "
            "again, or start over with `make clean`.",
            kind="demo-landing",
        )
