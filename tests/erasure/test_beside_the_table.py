"""Rows beside a table's own files: text segments of older states, ledgers, dead letters."""

from functools import partial
from pathlib import Path

from paimon_assets.assets.files.dead_letters import _LETTERS
from paimon_assets.assets.files.ledger import Ledger, Quarantined, property_of, write_ledger
from paimon_assets.engine.control.segments import FolderFile, registered_text_segments
from paimon_assets.erasure import erase
from tests.testkit import foreign
from tests.testkit.erasing import files_with
from tests.testkit.tables import arrow, new_catalog_in, new_table, write

MARK = "zq7marked"
COLUMNS = {"id": "INT", "email": "STRING"}
ALL_AGES = {"orphans_older_than_ms": 0}


def test_text_segment_of_older_state_is_listed(tmp_path):
    people = new_table(tmp_path / "w", COLUMNS, (1, "bob"))
    (tmp_path / "texts").mkdir()
    foreign.write(tmp_path / "texts" / "1.csv", arrow(people.schema, (3, MARK)))
    foreign.add_segment(people, tmp_path / "texts", "csv", options={"header": "true"})
    [segment] = registered_text_segments(people.state.store)
    people.tags.create("with the segment")
    people.segments().delete([segment.id])
    write(people, (2, "eve"))
    erase_marked = partial(erase, people.refresh(), f"email = '{MARK}'", **ALL_AGES)
    assert [text.partition(":")[0] for text in erase_marked().outside] == [
        f"text segment {segment.id}, which was not searched"
    ]


def test_ledgers_that_hold_filtered_text_are_listed_and_stay(tmp_path):
    people = new_table(tmp_path / "w", COLUMNS, (1, "bob"))
    files = [FolderFile(name=name, size=1, modified_ms=1) for name in (f"{MARK}.csv", "b.csv")]
    ledger = write_ledger(people, Ledger(source="shop").with_files(files))
    loaded = people.new_write_builder().with_properties({property_of("shop"): ledger})
    loaded.write(arrow(people.schema, (2, MARK)))
    folder = Path(people.path, "ingestion")
    stored = {path.name: path.read_bytes() for path in sorted(folder.glob("ledger-*"))}
    outside = erase(people.refresh(), f"email LIKE '{MARK}%'", **ALL_AGES).outside
    assert outside == tuple(
        f"ledger with a text of the filter: ingestion/{name}" for name in stored
    )
    assert erase(people, "email = 'other' OR id = 2", **ALL_AGES).is_complete
    assert stored.items() <= {path.name: path.read_bytes() for path in folder.iterdir()}.items()


def test_reasons_of_files_in_quarantine_are_searched(tmp_path):
    people = new_table(tmp_path / "w", COLUMNS, (1, "bob"))
    file = FolderFile(name="a.csv", size=1, modified_ms=1)
    bad = Quarantined(file=file, reason=f"'ü{MARK}' is no number")
    ledger = write_ledger(people, Ledger(source="shop").with_quarantined([bad]))
    loaded = people.new_write_builder().with_properties({property_of("shop"): ledger})
    loaded.write(arrow(people.schema, (2, "eve")))
    [line] = erase(people.refresh(), f"lower(email) = 'ü{MARK}'", **ALL_AGES).outside
    assert line == f"ledger with a text of the filter: ingestion/{ledger}"


def test_dead_letters_are_erased_like_rows_of_any_table(tmp_path):
    catalog = new_catalog_in(tmp_path / "w")
    letters = catalog.create_table("db.dead", _LETTERS)
    write(letters, ("a.csv", 1, "no number", f"x,{MARK}"), ("a.csv", 2, "no number", "y,bob"))
    write(letters, ("a.csv", 1, f"'{MARK}' is no number", f"x,{MARK}"))
    where = f"record LIKE '%{MARK}%' OR reason LIKE '%{MARK}%'"
    assert erase(letters, where, **ALL_AGES).is_complete
    assert files_with(tmp_path, MARK) == []
    assert [row["line"] for row in letters.refresh().to_arrow().to_pylist()] == [2]
