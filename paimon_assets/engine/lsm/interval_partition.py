"""Sections of the fewest sorted runs: which files must be merged with which.

Source: `org.apache.paimon.mergetree.compact.IntervalPartition`.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


def interval_partition(
    items: Iterable[Item], key_range: Callable[[Item], tuple[Any, Any]]
) -> list[list[list[Item]]]:
    """Group `items` into sections of the fewest sorted runs.

    Sections share no key, so each can be merged on its own; the files of a run share no key, so
    they can be read one after the other.

    Cost:
        O(n log n) comparisons for n items.

    >>> interval_partition([(5, 9), (1, 3), (2, 4)], lambda item: item)
    [[[(1, 3)], [(2, 4)]], [[(5, 9)]]]
    """
    ranged = sorted(((*key_range(item), item) for item in items), key=lambda entry: entry[:2])
    sections: list[list[list[Item]]] = []
    section: list[tuple[Any, Any, Item]] = []
    highest: Any = None
    for low, high, item in ranged:
        if section and low > highest:
            sections.append(_sorted_runs(section))
            section = []
        if not section or high > highest:
            highest = high
        section.append((low, high, item))
    if section:
        sections.append(_sorted_runs(section))
    return sections


def _sorted_runs(section: list[tuple[Any, Any, Item]]) -> list[list[Item]]:
    """Put each item on the run that ended first, if it ended before the item begins."""
    runs: list[list[Item]] = []
    ends: list[tuple[Any, int]] = []
    for low, high, item in section:
        if ends and ends[0][0] < low:
            run = ends[0][1]
            heapq.heapreplace(ends, (high, run))
            runs[run].append(item)
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([item])
    return runs
