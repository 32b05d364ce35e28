"""Trino, asked by its HTTP protocol: statements in, rows of JSON out."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests

_USER = {"X-Trino-User": "reader"}
_TIMEOUT_S = 600


class TrinoError(Exception):
    """Trino refused or failed; the message is its own."""


@dataclass(frozen=True, slots=True)
class Trino:
    uri: str

    def ask(self, statement: str) -> list[list[Any]]:
        """Run a statement, and return its rows.

        Raises:
            TrinoError: It failed.
        """
        answer = requests.post(
            f"{self.uri}/v1/statement", statement.encode(), headers=_USER, timeout=_TIMEOUT_S
        ).json()
        rows: list[list[Any]] = answer.get("data") or []
        while "nextUri" in answer:
            answer = requests.get(answer["nextUri"], headers=_USER, timeout=_TIMEOUT_S).json()
            rows += answer.get("data") or []
        if "error" in answer:
            raise TrinoError(answer["error"]["message"])
        return rows

    def add_catalog(self, name: str, options: dict[str, str]) -> None:
        """Make a catalog of Iceberg's tables."""
        listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in options.items())
        self.ask(f"CREATE CATALOG {name} USING iceberg WITH ({listed})")


@contextmanager
def trino(command: Sequence[str], log: Path) -> Iterator[Trino]:
    """Start Trino; it ends with the block."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            uri = process.stdout.readline().strip() if process.stdout else ""
            if not uri:
                raise TrinoError(log.read_text()[-2000:])
            yield Trino(uri)
        finally:
            process.kill()


def as_json(rows: pa.Table) -> list[list[Any]]:
    """Return rows as Trino's answers hold them."""
    columns = [[_json(each.as_py(), field.type) for each in rows[field.name]]
               for field in rows.schema]  # fmt: skip
    return [list(row) for row in zip(*columns, strict=True)]


def _json(value: Any, kind: pa.DataType) -> Any:
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return [_json(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        return {key: _json(each, kind.item_type) for key, each in value}
    assert isinstance(kind, pa.ListType)
    return [_json(each, kind.value_type) for each in value]
