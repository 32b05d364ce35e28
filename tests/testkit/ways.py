"""Refusals, each with the way out that its message names, and a call that takes it."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import PaimonError, Table, TableCatalog
from tests.testkit.tables import new_catalog_in, new_table

Call = Callable[[Any], object]
Way = tuple[str, str, Call, Call]
"""The error's kind, a part of its message, the call that is refused, and the one that is not."""


class Place:
    """A folder, and a warehouse in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: dict[str, Any] = {}

    @property
    def catalog(self) -> TableCatalog:
        return self.once("catalog", lambda: new_catalog_in(self.path / "w"))  # type: ignore[no-any-return]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the value of the first call: the refused call and the other one share it."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def table(self, columns: Any = None, *rows: Any, name: str = "db.t", **declared: Any) -> Table:
        """Return a table of the place, made with these columns and rows by the first call."""
        types = columns or {"k": "INT", "v": "STRING"}
        make = lambda: new_table(self.catalog, types, *rows, name=name, **declared)  # noqa: E731
        table: Table = self.once(name, make)
        return table.refresh()


def ways(listed: Iterable[Way]) -> Any:
    """Return the mark that runs a test for each way."""
    marks = [pytest.param(way, id=f"{number}-{way[0]}") for number, way in enumerate(listed)]
    return pytest.mark.parametrize("way", marks)


def take(way: Way, place: Any) -> None:
    """Be refused with the way's message, and take the way out of it."""
    kind, message, refused, taken = way
    with pytest.raises(PaimonError, match=re.escape(message)) as caught:
        refused(place)
    assert caught.value.kind == kind
    taken(place)
