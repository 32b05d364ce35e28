"""Ledgers of landed files that have a text of the filter: in a file's name, or a failure's reason.

They are read and never changed: without a name its file would be ingested again.
"""

import json
import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as papq

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.predicate import predicate as tests
from paimon_assets.engine.spec.predicate.predicate import Predicate

_FEWEST_LETTERS = 4
"""Shorter texts are in names of all kinds."""


def texts_of(predicate: Predicate) -> set[str]:
    """Return the texts that a filter compares with.

    >>> sorted(texts_of(tests.Or((tests.StartsWith("a", "anna"), tests.Like("b", "%li_a@x.de")))))
    ['a@x.de', 'anna']
    """
    return {text for text in _literals(predicate) if len(text) >= _FEWEST_LETTERS}


def _literals(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case tests.And() | tests.Or():
            for child in predicate.children:
                yield from _literals(child)
        case tests.Comparison(literal=str() as text) | tests.StartsWith(prefix=text):
            yield text
        case tests.In():
            yield from (each for each in predicate.literals if isinstance(each, str))
        case tests.Like():
            yield from re.split(r"[%_\\]", predicate.pattern)
        case tests.Applied():
            yield from _literals(predicate.test)
        case _:
            pass


def ledgers_with(store: FileStore, texts: Iterable[str]) -> list[str]:
    """Return the names of a table's ledger files that have one of some texts.

    Cost: one listing, and each ledger is read.
    """
    wanted = list(texts)
    listed = store.file_io.list_directory(store.paths.ledger_directory) if wanted else ()
    return sorted(
        each.name
        for each in listed
        if each.name.endswith((".json", ".parquet"))
        and any(text in _content(store.file_io.read_bytes(each.path)) for text in wanted)
    )


def _content(data: bytes) -> str:
    try:
        if data[:4] == b"PAR1":
            names = papq.read_table(pa.BufferReader(data)).column("name").to_pylist()
            return "\n".join(map(str, names))
        return json.dumps(json.loads(data), ensure_ascii=False)
    except (pa.ArrowException, ValueError, KeyError):
        return data.decode(errors="replace")
