"""Cast: the parameters of a kernel besides its values, and its errors about a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.data_types import AtomicType

Array: TypeAlias = Any
"""A `pa.Array` of some type; the stubs do not know what kernels return."""

UTC = "UTC"
CAST = "cast"
"""`kind` of the errors about a value that cannot be cast."""

_MAX_EXAMPLE = 60
_FIRST_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """One cast of one column."""

    source: AtomicType
    target: AtomicType
    dialect: CastDialect
    zone: str = UTC
    """The zone of local times (`cast.time-zone`)."""

    @property
    def is_java(self) -> bool:
        """Whether Java's rules hold, and not those of C++."""
        return self.dialect is CastDialect.JAVA

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of a kernel's result."""
        return to_arrow_type(self.target)

    def error(self, value: object, reason: str = "") -> InvalidInputError:
        """Return the error about a value, shown as an example."""
        text = value if isinstance(value, str) else str(value)
        if len(text) > _MAX_EXAMPLE:
            text = f"{text[:_MAX_EXAMPLE]}…"
        return InvalidInputError(
            f"'{text}' of type {self.source} is not a valid {self.target}"
            f"{f': {reason}' if reason else ''} (cast dialect {self.dialect}).",
            kind=CAST,
            details={
                "source_type": str(self.source),
                "target_type": str(self.target),
                "value": text,
                "dialect": self.dialect.value,
            },
        )

    def check(self, is_bad: Array | npt.NDArray[np.bool_], array: Array, reason: str = "") -> None:
        """Raise if some value is bad."""
        if isinstance(is_bad, np.ndarray):
            first = int(np.argmax(is_bad)) if len(is_bad) else 0
            if not len(is_bad) or not is_bad[first]:
                return
        else:
            first = pc.index(is_bad, pa.scalar(value=True)).as_py()
            if first < 0:
                return
        raise self.error(_show(array, first), reason)

    def by_arrow(self, array: Array, arrow_type: Any = None) -> Array:
        """Cast as Arrow does, to the target's type by default."""
        target = self.arrow_type if arrow_type is None else arrow_type
        return self.apply(array, lambda part: part.cast(target))

    def apply(self, array: Array, kernel: Callable[[Array], Array], reason: str = "") -> Array:
        """Call an Arrow kernel; its error names the first value that it refuses."""
        try:
            return kernel(array)
        except pa.ArrowInvalid as error:
            raise self.error(_show(array, _first_refused(array, kernel)), reason) from error


Kernel: TypeAlias = Callable[[Array, Cast], Array]
"""Values of `cast.source` → values of `cast.target`, as many, with nulls where there were nulls."""


def attempt(array: Array, arrow_type: Any) -> Array | None:
    """Cast as Arrow does, or return None where Arrow refuses some value.

    Arrow writes an error for every value it refuses, which takes longer than casting: the first
    rows are tried alone.
    """
    if len(array) > _FIRST_ROWS and attempt(array.slice(0, _FIRST_ROWS), arrow_type) is None:
        return None
    try:
        return array.cast(arrow_type)
    except pa.ArrowInvalid:
        return None


def _first_refused(array: Array, kernel: Callable[[Array], object]) -> int:
    """Return the first row that a kernel refuses, if it refuses some; halves the array."""
    start, rows = 0, len(array)
    while rows > 1:
        half = rows // 2
        try:
            kernel(array.slice(start, half))
        except pa.ArrowInvalid:
            rows = half
        else:
            start, rows = start + half, rows - half
    return start


def _show(array: Array, row: int) -> str:
    value = array[row]
    if pa.types.is_string(array.type):
        return bytes(value.as_buffer()).decode(errors="backslashreplace")
    return str(value.cast(pa.string()).as_py())
