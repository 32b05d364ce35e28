"""Rows that a full compaction leaves out because of their age (`record-level.expire-time`).

Source: `org.apache.paimon.io.RecordLevelExpire`. Java drops such rows in every compaction; here
only in those to the top level, below which no older row of the key can come back.
"""

import datetime as dt
from typing import NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.merge_options import (
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
)
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    Or,
    Predicate,
    bind,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import TIMESTAMP_ROOTS, DataField, TypeRoot

_FIRST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds, below seconds."""


def expired_rows(schema: TableSchema, now_ms: int) -> Predicate | None:
    """Return the (bound) predicate of the rows that are too old, None if rows never are.

    `now_ms` counts milliseconds since 1970 in UTC. An option that names no column of a fitting type
    is an InvalidInputError of kind `record-expiry`.
    """
    options = schema.typed_options
    age_ms = options.get(RECORD_LEVEL_EXPIRE_TIME)
    if age_ms is None or not schema.has_primary_key:
        return None
    name = options.get(RECORD_LEVEL_TIME_FIELD)
    if name is None:
        _refuse("needs", f"'{RECORD_LEVEL_TIME_FIELD.key}', the column of the rows' time")
    if name not in schema.by_name:
        _refuse("is by", f"column '{name}', which the table does not have")
    return bind(_below(schema.by_name[name], now_ms // 1000 - age_ms // 1000), schema)


def _below(column: DataField, oldest: int) -> Predicate:
    """Return the predicate of times before `oldest`, in seconds since 1970."""
    name = column.name
    root = column.type.root
    if root is TypeRoot.INT:
        return Comparison(name, CompareOp.LT, oldest)
    if root is TypeRoot.BIGINT:
        in_millis = (
            Comparison(name, CompareOp.GE, _FIRST_MILLIS),
            Comparison(name, CompareOp.LT, oldest * 1000),
        )
        return Or((Comparison(name, CompareOp.LT, oldest), And(in_millis)))
    if root in TIMESTAMP_ROOTS:
        zone = None if root is TypeRoot.TIMESTAMP else dt.UTC  # Java takes both for UTC
        instant = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(seconds=oldest)
        return Comparison(name, CompareOp.LT, instant)
    return _refuse("is by", f"column '{name}' of type {column.type}, not INT, BIGINT or TIMESTAMP")


def _refuse(verb: str, reason: str) -> NoReturn:
    raise InvalidInputError(
        f"Option '{RECORD_LEVEL_EXPIRE_TIME.key}' {verb} {reason}.", kind="record-expiry"
    )
