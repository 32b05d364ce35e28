"""FLOAT → plain text: the same as Arrow's search for the shortest."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets.engine.data.casting.float_text import float_texts

LEAST, END = (int(np.float32(bound).view(np.uint32)) for bound in (0.001, 1e7))
STRIDE = 1009


def arrows(values):
    texts = pa.array(values).cast(pa.string())
    whole = pa.array(np.trunc(values) == values)
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def around(values):
    """Each number and its two neighbours, as far as they are in range."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    found = np.concatenate([bits - 1, bits, bits + 1])
    return found[(found >= LEAST) & (found < END)].view(np.float32)


CASES = {
    "all sizes": np.arange(LEAST, END, STRIDE, dtype=np.uint32).view(np.float32),
    "powers of two": around([2.0**power for power in range(-10, 24)]),
    "powers of ten": around([10.0**power for power in range(-3, 7)]),
    "short": around(np.arange(1, 20_000) / 100),
    "whole": np.arange(0, 9_999_999, STRIDE).astype(np.float32),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_shortest_text(name, sign):
    values = np.copysign(CASES[name], np.float32(sign))

    texts = float_texts(values)

    texts.validate(full=True)
    assert texts.equals(arrows(values))


def test_no_rows():
    assert float_texts(np.empty(0, np.float32)).to_pylist() == []
