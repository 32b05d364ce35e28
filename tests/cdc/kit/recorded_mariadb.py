"""Recorded steps of a MariaDB database, by Debezium: `golden/record_mariadb.py`."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

from tests.cdc.kit.recorded_debezium import Step, recorded_steps

FILE = "debezium_mariadb.jsonl.gz"
_ZERO = "0000-00-00"


def steps() -> list[Step]:
    return recorded_steps(FILE)[0]


def mariadb_value(name: str, value: Any) -> Any:
    """Return a stored value of a column as MariaDB's CONCAT shows it."""
    match value:
        case str() if name == "shape":
            point = json.loads(value)
            return f"POINT({point['x']:g} {point['y']:g})"
        case bytes() if name == "bits":
            return f"{int.from_bytes(value, 'big'):b}"
        case bytes():
            return value.hex().upper()
        case bool():
            return str(int(value))
        case dt.datetime():
            digits = {"made": 6, "zoned": 3}.get(name, 0)
            text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
            return text[: 19 + bool(digits) + digits]
        case dt.date() | dt.time():
            return value.isoformat(*(["milliseconds"] if isinstance(value, dt.time) else []))
        case float():
            return f"{value:g}" if value != int(value) else str(int(value))
        case Decimal():
            return f"{value:f}"
        case None | str():
            return value
        case _:
            return str(value)


def connector_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the database as the connector sends it: no zero dates.

    Of an ENUM whose member has a comma it sends `c\\,d` from the binlog, and `c,d` in a snapshot.
    """
    return {
        name: None if isinstance(text, str) and text.startswith(_ZERO) else text
        for name, text in row.items()
    }
