"""Texts of FLOAT and DOUBLE, which are names of folders, against those of a running Java."""

import numpy as np
import pytest

from paimon_assets.engine.spec.java_float_text import java_float_text
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

COUNT = 20_000
FIRST_OF_SHORTEST = 19
"""From this release on Java writes the shortest text."""


@pytest.mark.parametrize("single", [False, True])
def test_folders_of_floats_are_named_as_by_java_before_19(java: Oracle, single: bool) -> None:
    chance = np.random.default_rng(15)
    real, whole = (np.float32, np.int32) if single else (np.float64, np.int64)
    limits = np.iinfo(whole)
    largest = 2.0 ** (31 if single else 63)
    bits = np.concatenate(
        [
            chance.integers(limits.min, limits.max, COUNT, whole),
            np.floor(chance.uniform(0, largest, COUNT)).astype(real).view(whole),
            chance.uniform(1e25, 8e25, COUNT).astype(real).view(whole),  # its long runs over there
            chance.integers(1, 10_000, COUNT, whole),
            np.round(chance.uniform(-1e6, 1e6, COUNT), 2).astype(real).view(whole),
        ]
    )
    release, *texts = java.call("float_texts", single=single, bits=bits.tolist())
    if int(release.split(".")[-1]) >= FIRST_OF_SHORTEST:
        pytest.skip(f"Java {release} names folders otherwise")
    with np.errstate(invalid="ignore"):  # NaN that signal
        numbers = bits.view(real).astype(np.float64).tolist()
    assert [java_float_text(each, single=single) for each in numbers] == texts
