"""An erasure killed at any call leaves states that can be read, and a second run ends it."""

import shutil
from itertools import count

import pytest

from paimon_assets.engine.table.api import open_table
from paimon_assets.erasure import erase
from tests.erasure.test_erase import MARK, History, check_sound, states, without
from tests.testkit.effort import is_hunt
from tests.testkit.erasing import files_with
from tests.testkit.faults.writers import DEATHS, erase_until_killed, exit_code
from tests.testkit.tables import write

WHERE = f"email LIKE '{MARK}%'"
CASES = [
    ("bag with vectors", "keep", 101),
    ("lookup", "keep", 113),
    ("bag with vectors", "expire", 103),
    ("lookup", "expire", 109),
    ("dynamic", "expire", 127),
    ("iceberg keyed", "expire", 149),
]


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mode", "stride"), CASES)
def test_erase_survives_kill_at_any_call(tmp_path, kind, mode, stride):
    template = History(tmp_path / "template", kind, 11, parted=False)
    template.table.tags.create("last")
    before = states(template.table)
    stride //= 12 if is_hunt() else 1
    for steps in count(stride // 2, stride):
        copy = tmp_path / "copy"
        shutil.copytree(template.table.path, copy)
        code = exit_code(erase_until_killed, str(copy), steps, WHERE, mode)
        assert code == 0 or code in DEATHS
        table = open_table(str(copy))
        for name, rows in states(table).items():
            if name in before:
                assert rows in (before[name], without(before[name], template))
        write(table, {"id": 99, "p": "a", "email": "new", "n": 0})
        report = erase(table, WHERE, history=mode, orphans_older_than_ms=0)
        assert report.is_complete
        assert files_with(copy, MARK) == []
        after = states(table)
        kept = before.keys() & after.keys()
        assert mode == "expire" or kept == before.keys()
        for name in kept:
            assert after[name] == without(before[name], template)
        assert (99, "a", "new", 0) in after[None, f"snapshot {table.latest_snapshot().id}"]
        check_sound(table)
        shutil.rmtree(copy)
        if code == 0:
            break
    assert steps > 2 * stride
