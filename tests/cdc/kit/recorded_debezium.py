"""Recorded steps of a Postgres database, by Debezium: `golden/record_debezium.py`."""

import datetime as dt
import gzip
import json
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from tests.cdc.kit.cdc_replay import GOLDEN


@dataclass(frozen=True)
class Step:
    """A step of the database: the events of the connector, and the tables after it."""

    name: str
    events: list[dict[str, Any]]
    rows: dict[str, list[dict[str, Any]]]


@cache
def recorded_steps(file: str = "debezium_postgres.jsonl.gz") -> tuple[list[Step], dict[int, Any]]:
    """Return the steps, and the registry's schemas by id, if it has one."""
    lines = [*map(json.loads, gzip.decompress((GOLDEN / file).read_bytes()).splitlines())]
    schemas = lines.pop()["schemas"] if "schemas" in lines[-1] else {}
    return [_step(step) for step in lines], {int(id_): schema for id_, schema in schemas.items()}


def _step(line: Any) -> Step:
    rows = {
        table: [json.loads(text, parse_float=Decimal) for text in texts]
        for table, texts in line["rows"].items()
    }
    return Step(line["step"], line["events"], rows)


def values_with_schemas(step: Step) -> list[str]:
    return [event["json_value"] or "null" for event in step.events]


def values_alone(step: Step) -> list[str]:
    return [
        "null" if text == "null" else json.dumps(json.loads(text)["payload"])
        for text in values_with_schemas(step)
    ]


def messages(step: Step) -> list[str]:
    """Return keys and values with their topics."""
    return [
        f'{{"topic":"{event["topic"]}","key":{event["json_key"] or "null"},'
        f'"value":{event["json_value"] or "null"}}}'
        for event in step.events
    ]


def postgres_value(name: str, value: Any) -> Any:
    """Return a stored value of a column as Postgres' `row_to_json` shows it."""
    match value:
        case bytes():
            return f"{value[0]:05b}" if name == "bits" else "\\x" + value.hex()
        case str() if name == "doc":
            return json.loads(value, parse_float=Decimal)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).isoformat()
        case dt.datetime() | dt.date():
            return value.isoformat()
        case dt.time():
            return value.isoformat("milliseconds")
        case float():
            return "NaN" if value != value else Decimal(repr(value))
        case _:
            return value
