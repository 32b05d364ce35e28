"""RowKind: the effect of a record on its key.

Source: `org.apache.paimon.types.RowKind`; semantics of `rowkind.field`.
"""

from enum import IntEnum


class RowKind(IntEnum):
    """Kind of a change; the value is the byte stored in `_VALUE_KIND`."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short_text(self) -> str:
        """The two characters people write: +I, -U, +U, -D."""
        return SHORT_TEXTS[self]

    @property
    def is_add(self) -> bool:
        """Whether the record adds a row (+I, +U) rather than retracting one (-U, -D)."""
        return self in (RowKind.INSERT, RowKind.UPDATE_AFTER)


SHORT_TEXTS = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}

BY_SHORT_TEXT = {text: kind for kind, text in SHORT_TEXTS.items()}
