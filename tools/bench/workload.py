"""The inputs: seeded tables of eight columns, kept as Arrow files: every engine reads the same.

A row is about 73 bytes of Arrow. Needs numpy and pyarrow alone: the peers' environment runs it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

APPEND_ROWS = 5_000_000
KEY_ROWS = 2_000_000
UPSERT_ROWS = 500_000
NEW_KEYS_OF_UPSERT = 0.2
UPSERTS = 3

COLUMNS = {
    "id": "BIGINT",
    "k": "INT",
    "name": "STRING",
    "cat": "STRING",
    "price": "DOUBLE",
    "qty": "INT",
    "ts": "TIMESTAMP(6)",
    "amount": "DECIMAL(12, 2)",
}
CATEGORIES = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])

_FIRST_MICROS = 1_700_000_000_000_000
_MICROS_SPAN = 10**13


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    name: str
    primary_keys: tuple[str, ...]
    options: dict[str, str]

    @property
    def columns(self) -> dict[str, str]:
        """Column → type text; keys are NOT NULL."""
        return {
            name: f"{text} NOT NULL" if name in self.primary_keys else text
            for name, text in COLUMNS.items()
        }


TABLES = {
    "append": BenchTable(name="append", primary_keys=(), options={"bucket": "-1"}),
    "pk": BenchTable(name="pk", primary_keys=("id",), options={"bucket": "2"}),
}


def load_input(kind: str, scale: float, directory: Path) -> pa.Table:
    """Return one input, making its file first if it is absent."""
    path = directory / f"{kind}-{scale}.arrow"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        feather.write_feather(_rows_of(kind, scale), str(unfinished), compression="uncompressed")
        unfinished.rename(path)
    return feather.read_table(str(path), memory_map=False)


def _rows_of(kind: str, scale: float) -> pa.Table:
    if kind == "append":
        return columns_of(np.arange(int(APPEND_ROWS * scale), dtype=np.int64), seed=1)
    number = int(kind.removeprefix("pk"))
    random = np.random.default_rng(100 + number)
    loaded = int(KEY_ROWS * scale)
    if number == 0:
        return columns_of(random.permutation(loaded).astype(np.int64), seed=2)
    size = int(UPSERT_ROWS * scale)
    new = int(size * NEW_KEYS_OF_UPSERT)
    known_ids = random.choice(loaded, size=size - new, replace=False)
    new_ids = loaded + (number - 1) * new + np.arange(new)
    ids = random.permutation(np.concatenate([known_ids, new_ids])).astype(np.int64)
    return columns_of(ids, seed=10 + number)


def columns_of(ids: "np.ndarray[tuple[int], np.dtype[np.int64]]", seed: int) -> pa.Table:
    """Rows of these ids in all of `COLUMNS`."""
    random = np.random.default_rng(seed)
    rows = len(ids)
    micros = _FIRST_MICROS + random.integers(0, _MICROS_SPAN, rows)
    unscaled = np.zeros((rows, 2), dtype=np.int64)  # a decimal128 is two little-endian words
    unscaled[:, 0] = random.integers(0, 10**9, rows)
    amount = pa.Array.from_buffers(
        pa.decimal128(12, 2), rows, [None, pa.py_buffer(unscaled.tobytes())]
    )
    names = np.char.add("user_", (ids * 2_654_435_761 % 10**11).astype("U11"))
    return pa.table(
        {
            "id": pa.array(ids),
            "k": pa.array(random.integers(0, 1_000_000, rows, dtype=np.int32)),
            "name": pa.array(names),
            "cat": pa.array(CATEGORIES[random.integers(0, len(CATEGORIES), rows)]),
            "price": pa.array(random.random(rows) * 1000),
            "qty": pa.array(random.integers(1, 100, rows, dtype=np.int32)),
            "ts": pa.array(micros.astype("datetime64[us]")),
            "amount": amount,
        }
    )
