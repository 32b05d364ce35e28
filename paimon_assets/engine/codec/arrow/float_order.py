"""The order of Java's `compareTo` for floating-point numbers: -0.0 < 0.0, NaN last, one NaN."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)


def total_order(array: Any) -> Any:
    """Return an array of numbers that compare as its values do; nulls stay."""
    words = from_numpy(total_order_words(to_numpy(array)))
    return pc.if_else(array.is_valid(), words, None) if array.null_count else words


def total_order_words(values: npt.NDArray[Any]) -> Words:
    """Map floating-point values to numbers that compare as they do."""
    doubles = values.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)
