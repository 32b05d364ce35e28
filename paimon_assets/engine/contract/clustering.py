"""ClusterOrder: by which columns, and along which curve, the rows of a partition are laid out."""

from dataclasses import dataclass
from enum import StrEnum


class Curve(StrEnum):
    """The curve that makes one order of several columns."""

    ORDER = "order"
    """By the first column, then the next."""
    ZORDER = "zorder"
    """Along the Z-curve: filters on any of the columns skip files."""
    HILBERT = "hilbert"
    """Along the Hilbert curve, whose neighbours are always close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOrder:
    """An order of rows."""

    columns: tuple[str, ...]
    """Most significant first."""
    curve: Curve = Curve.ORDER
