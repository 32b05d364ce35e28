"""Which buckets can hold rows that pass a predicate: those the bucket key's values hash to.

Each entry is judged by the bucket count it was written with, because partitions keep theirs when
the table's option changes.
"""

import itertools
from typing import Any

from paimon_assets.engine.codec.hashing.bucket_function import bucket_of
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import BUCKET_FUNCTION
from paimon_assets.engine.spec.predicate.predicate import (
    CompareOp,
    Comparison,
    In,
    Predicate,
    conjuncts,
)
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.data_types import TypeRoot

_MOST_KEYS = 1000
_TWO_ZEROS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
"""0.0 equals -0.0 but hashes elsewhere."""


class BucketPruning:
    """Decides by (bucket, total buckets); without a usable predicate everything passes."""

    def __init__(self, schema: TableSchema, predicate: Predicate | None) -> None:
        self._function = schema.typed_options.get(BUCKET_FUNCTION)
        self._keys = _bucket_keys(schema, predicate)
        self._types = [field.type for field in schema.columns(schema.bucket_keys)]
        self._buckets: dict[int, frozenset[int]] = {}

    @property
    def is_active(self) -> bool:
        """Whether anything can be pruned."""
        return self._keys is not None

    def may_match(self, bucket: int, total_buckets: int) -> bool:
        """Whether a bucket can hold a row that passes.

        Args:
            bucket: Number of the bucket.
            total_buckets: The entry's own bucket count; without a fixed count everything passes.
        """
        if self._keys is None or total_buckets <= 0:
            return True
        wanted = self._buckets.get(total_buckets)
        if wanted is None:
            wanted = self._wanted(self._keys, total_buckets)
            self._buckets[total_buckets] = wanted
        return bucket in wanted

    def _wanted(self, keys: list[tuple[Any, ...]], total_buckets: int) -> frozenset[int]:
        wanted = set()
        for key in keys:
            try:
                serialize_row(key, self._types)
            except InvalidInputError:
                continue  # no value of the column's type, so no row has it
            wanted.add(bucket_of(key, self._types, total_buckets, self._function))
        return frozenset(wanted)


def _bucket_keys(schema: TableSchema, predicate: Predicate | None) -> list[tuple[Any, ...]] | None:
    """Return the bucket keys a row must have one of, None if they are not known."""
    names = schema.bucket_keys
    if predicate is None or not names or schema.bucket_mode is not BucketMode.HASH_FIXED:
        return None
    if any(field.type.root in _TWO_ZEROS for field in schema.columns(names)):
        return None
    choices: dict[str, tuple[Any, ...]] = {}
    for part in conjuncts(predicate):
        match part:
            case Comparison(field=field, op=CompareOp.EQ, literal=literal):
                choices[field] = (literal,)
            case In(field=field, literals=literals, negated=False):
                choices.setdefault(field, literals)
            case _:
                continue
    count = 1
    for name in names:
        if name not in choices:
            return None
        choices[name] = tuple(value for value in choices[name] if value is not None)
        count *= len(choices[name])
    if count > _MOST_KEYS:
        return None
    return list(itertools.product(*(choices[name] for name in names)))
