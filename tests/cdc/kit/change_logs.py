"""Records of Debezium's Postgres connector in a folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GONE = "__debezium_unavailable_value"
HOUR = 1_700_000_000_000


def debezium(op: str, lsn: int, table: str = "orders", name: str = "pg", **values: Any) -> str:
    """Return a record of Debezium's Postgres connector, without schema."""
    image = values or None
    record = {
        "op": op,
        "before": image if op == "d" else None,
        "after": None if op in "dt" else image,
        "source": {
            "connector": "postgresql", "name": name, "db": "shop", "schema": "public",
            "table": table, "lsn": lsn, "txId": lsn, "ts_ms": HOUR + lsn, "snapshot": "false",
        },
        "ts_ms": HOUR + lsn + 5,
    }  # fmt: skip
    return json.dumps(record)


def with_types(record: str, **types: str) -> str:
    """Return the record with the types of its columns in a schema."""
    return with_fields(record, **{name: {"type": text} for name, text in types.items()})


def with_fields(record: str, **columns: Mapping[str, Any]) -> str:
    """Return the record with its columns as Kafka Connect describes them."""
    fields = [{"optional": True, **column, "field": name} for name, column in columns.items()]
    images = [
        {"field": name, "type": "struct", "optional": True, "fields": fields, "name": "v"}
        for name in ("before", "after")
    ]
    schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}
    return json.dumps({"schema": schema, "payload": json.loads(record)})


def land(folder: Path, name: str, *records: str) -> None:
    (folder / f".{name}").write_text("\n".join(records) + "\n")
    (folder / f".{name}").rename(folder / f"{name}.json")
