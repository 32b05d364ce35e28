"""Numbers along a space-filling curve, for columns that were cut into ranks.

Ranks, not values, are laid on the curve: each column gets as many cells as the others, whatever its
type and spread. Source of `hilbert`: J. Skilling, "Programming the Hilbert curve", 2004.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_ONE = np.uint64(1)


def zorder(ranks: Sequence[Words], bits: int) -> Words:
    """Interleave the lowest `bits` bits of each column, the first column's first.

    >>> zorder([np.array([0, 1], np.uint64), np.array([1, 0], np.uint64)], 1).tolist()
    [1, 2]
    """
    keys = np.zeros(len(ranks[0]), dtype=np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in ranks:
            keys = (keys << _ONE) | ((column >> np.uint64(bit)) & _ONE)
    return keys


def hilbert(ranks: Sequence[Words], bits: int) -> Words:
    """Return the place of each row on the Hilbert curve of `bits` bits a column.

    >>> cells = [np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 1, 0], np.uint64)]
    >>> hilbert(cells, 1).tolist()
    [0, 1, 2, 3]
    """
    axes = [column.copy() for column in ranks]
    for bit in range(bits - 1, 0, -1):
        mask, below = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for number, axis in enumerate(axes):
            is_set = (axis & mask) != 0
            swapped = (axes[0] ^ axis) & below
            axes[0] = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = np.where(is_set, axis, axis ^ swapped)
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    turned = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_set = (axes[-1] & np.uint64(1 << bit)) != 0
        turned = np.where(is_set, turned ^ np.uint64((1 << bit) - 1), turned)
    return zorder([axis ^ turned for axis in axes], bits)
