"""XXH64 with seed 0 of a column of texts or bytes, all rows at a time.

Rows are sorted by length, the longest first: those that still have a stripe, a word or a byte to
hash are always the first ones. So the steps depend on the longest value, not on the rows.
Source: `net.openhft.hashing.LongHashFunction.xx`; https://github.com/Cyan4973/xxHash
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Words

_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_P1, _P2, _P3, _P4, _P5 = (np.uint64(prime) for prime in _PRIMES)
_MASK = 2**64 - 1
_STRIPE = 32
_LANES = 4
_SEEDS = ((_PRIMES[0] + _PRIMES[1]) & _MASK, _PRIMES[1], 0, -_PRIMES[0] & _MASK)


def xxhash64(values: Any) -> Words:
    """Return the hash of each value. Cost: O(bytes), in O(longest value) steps of numpy."""
    plain = values.cast(pa.large_binary())
    _, offsets, content = plain.buffers()
    ends = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    data, starts, lengths = np.frombuffer(content or b"", np.uint8), ends[:-1], np.diff(ends)
    # The longest values come first: those that still have a stripe are the first `live` ones.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    state = np.full(len(lengths), _P5, np.uint64)
    striped = int(np.count_nonzero(lengths >= _STRIPE))
    if striped:
        state[:striped] = _stripes(data, starts[:striped], lengths[:striped] // _STRIPE)
    state += lengths.astype(np.uint64)
    _tail(state, data, starts + lengths // _STRIPE * _STRIPE, lengths % _STRIPE)
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    hashes = np.empty_like(state)
    hashes[order] = state ^ (state >> np.uint64(32))
    return hashes


def split_mix(values: Words) -> Words:
    """Mix 64 bits of each value, each bit into all: the finalizer of SplitMix64."""
    bits = values + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _words(data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64]) -> Words:
    """Gather the little-endian 64-bit words that begin at the positions."""
    windows: Words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    return windows[positions]


def _rotate(values: Words, by: int) -> Words:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _round(state: Words, words: Words) -> Words:
    return _rotate(state + words * _P2, 31) * _P1


def _stripes(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Words:
    # Counts descend, so the values that have a stripe of this number are the first `live` ones.
    lanes = [np.full(len(starts), seed, np.uint64) for seed in _SEEDS]
    for stripe in range(int(counts[0])):
        live = int(np.searchsorted(-counts, -stripe, side="left"))
        for number, lane in enumerate(lanes):
            positions = starts[:live] + (stripe * _STRIPE + 8 * number)
            lane[:live] = _round(lane[:live], _words(data, positions))
    state = _rotate(lanes[0], 1)
    for lane, by in zip(lanes[1:], (7, 12, 18), strict=True):
        state = state + _rotate(lane, by)
    for lane in lanes:
        state = (state ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return state


def _tail(
    state: Words,
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    """Mix in the last bytes of each value, fewer than a stripe."""
    # `at` is the next byte of each value to mix in: whole words, then half a word, then single
    # bytes.
    at = starts.copy()
    for number in range(_LANES - 1):
        rows = np.flatnonzero(lengths >= 8 * (number + 1))
        if len(rows):
            mixed = state[rows] ^ _round(np.zeros(len(rows), np.uint64), _words(data, at[rows]))
            state[rows] = _rotate(mixed, 27) * _P1 + _P4
            at[rows] += 8
    rows = np.flatnonzero(lengths % 8 >= _LANES)
    if len(rows):
        halves = np.zeros(len(rows), np.uint64)
        for byte in range(_LANES):
            halves |= data[at[rows] + byte].astype(np.uint64) << np.uint64(8 * byte)
        state[rows] = _rotate(state[rows] ^ halves * _P1, 23) * _P2 + _P3
        at[rows] += _LANES
    for number in range(_LANES - 1):
        rows = np.flatnonzero(lengths % _LANES > number)
        if len(rows):
            mixed = state[rows] ^ data[at[rows]].astype(np.uint64) * _P5
            state[rows] = _rotate(mixed, 11) * _P1
            at[rows] += 1
