import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.data.compact.sections import ChangelogRule, RecordRows

KINDS = ("+I", "-U", "+U", "-D")


def rows(values, first_number=0, kinds=None):
    return RecordRows(
        columns=(pa.array(range(len(values)), pa.int64()), pa.array(values)),
        numbers=np.arange(first_number, first_number + len(values)),
        kinds=np.array(kinds or [0] * len(values), dtype=np.int8),
    )


def changes(rule, before, after, was, now):
    found = rule.rows(before, after, np.array(was), np.array(now))
    if found is None:
        return []
    return [
        (KINDS[kind], value, number)
        for kind, value, number in zip(
            found.kinds, found.columns[1].to_pylist(), found.numbers.tolist(), strict=True
        )
    ]


BEFORE, AFTER = rows(["a", "b", "c"]), rows(["b", "x", "n"], first_number=10)


def test_changes_come_in_key_order_with_the_numbers_of_their_records():
    found = changes(ChangelogRule(), BEFORE, AFTER, [0, -1, 1, 2, -1], [-1, 2, 0, 1, -1])
    assert found == [
        ("-D", "a", 0),
        ("+I", "n", 12),
        ("-U", "b", 1),
        ("+U", "b", 10),
        ("-U", "c", 2),
        ("+U", "x", 11),
    ]


@pytest.mark.parametrize(("compared", "count"), [((), 4), ((1,), 2)])
def test_updates_without_a_difference_can_be_left_out(compared, count):
    rule = ChangelogRule(compared=compared)
    assert len(changes(rule, BEFORE, AFTER, [1, 2], [0, 1])) == count


def test_first_rows_are_never_updated():
    rule = ChangelogRule(updates=False)
    assert changes(rule, BEFORE, AFTER, [0, -1], [0, 2]) == [("+I", "n", 12)]


def test_no_change_is_no_rows():
    assert changes(ChangelogRule(), BEFORE, AFTER, [-1], [-1]) == []


def test_some_rows_are_kept():
    kept = BEFORE.filter(np.array([True, False, True]))
    assert kept.columns[1].to_pylist() == ["a", "c"]
    assert kept.numbers.tolist() == [0, 2]
    assert BEFORE.filter(np.ones(3, dtype=bool)) is BEFORE
