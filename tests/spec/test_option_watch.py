"""Every option of Paimon 2.1 is known here, refused, or harmless for a reason.

`golden/options/upstream.csv` lists the keys of `CoreOptions`, `CatalogOptions` and
`RESTCatalogOptions` (2.1-SNAPSHOT at 5dacde516b) and of pypaimon 2.1.0. When it is renewed, the
test names the new keys: read their meaning before adding them to `harmless.csv`.
"""

import csv
from fnmatch import fnmatchcase
from pathlib import Path

from paimon_assets.engine.spec.options.all_options import ALL_OPTIONS

GOLDEN = Path(__file__).parent.parent / "golden" / "options"
KNOWN = frozenset(key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys))


def _column(name, column):
    with (GOLDEN / name).open() as file:
        return [row[column] for row in csv.DictReader(file)]


def _surprises(keys, patterns):
    return [
        key
        for key in keys
        if key not in KNOWN and not any(fnmatchcase(key, pattern) for pattern in patterns)
    ]


def test_upstream_options_are_classified():
    assert _surprises(_column("upstream.csv", "key"), _column("harmless.csv", "pattern")) == []


def test_removed_key_is_detected():
    patterns = _column("harmless.csv", "pattern")
    keys = _column("upstream.csv", "key")
    left = [pattern for pattern in patterns if pattern != "chain-table.*"]
    assert _surprises(keys, left) == [
        "chain-table.chain-partition-keys",
        "chain-table.split.key-range-enabled",
        "chain-table.streaming.merge-snapshot",
    ]
    assert _surprises([*keys, "rows.upside-down"], patterns) == ["rows.upside-down"]


def test_every_pattern_is_of_key_that_is_not_known():
    keys = [key for key in _column("upstream.csv", "key") if key not in KNOWN]
    patterns = _column("harmless.csv", "pattern")
    assert [p for p in patterns if not any(fnmatchcase(key, p) for key in keys)] == []
    assert all(_column("harmless.csv", "reason"))
