"""The ledger as a value: comparing folders with it, and its bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.assets.files.ledger import (
    Ledger,
    SourceFile,
    compare,
    ledger_from_json,
    ledger_to_json,
)
from paimon_assets.engine.errors import FormatError, InvalidInputError

files = st.builds(
    SourceFile,
    name=st.text(min_size=1, max_size=3),
    size_bytes=st.integers(0, 2**62),
    modified_ms=st.integers(0, 2**62),
)
folders = st.lists(files, max_size=8, unique_by=lambda file: file.name)


@given(folders, st.integers(0, 9))
def test_a_ledger_comes_back_from_its_bytes(held: list[SourceFile], generation: int) -> None:
    ledger = Ledger(source="log/events", generation=generation, files=tuple(held))
    assert ledger_from_json(ledger_to_json(ledger), "x") == ledger


@given(folders)
def test_what_was_taken_in_is_never_new_again(folder: list[SourceFile]) -> None:
    empty = Ledger(source="s")
    first = compare(folder, empty)
    assert set(first.new) == set(folder)
    assert list(first.new) == sorted(first.new)
    after = compare(folder, empty.with_files(first.new))
    assert (after.new, after.changed) == ((), ())


@given(folders, st.data())
def test_every_file_of_a_folder_is_new_changed_or_held(
    folder: list[SourceFile], data: st.DataObject
) -> None:
    held = data.draw(folders)
    pending = compare(folder, Ledger(source="s", files=tuple(held)))
    unchanged = set(folder) & set(held)
    assert {*pending.new, *pending.changed, *unchanged} == set(folder)
    assert not {file.name for file in pending.new} & {file.name for file in held}
    assert {file.name for file in pending.changed} <= {file.name for file in held}


def test_changes_are_refused_by_name() -> None:
    held = SourceFile(name="a", size_bytes=1, modified_ms=1)
    now = SourceFile(name="a", size_bytes=2, modified_ms=1)
    pending = compare([now], Ledger(source="s", files=(held,)))
    with pytest.raises(InvalidInputError, match="a in '/landing' changed") as caught:
        pending.refuse_changes("/landing")
    assert caught.value.kind == "source-changed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "source": "s", "generation": 0, "files": []}',
        b'{"version": 1, "source": "s", "generation": "x", "files": []}',
        b'{"version": 1, "source": "s", "generation": 0, "files": [["a", "b"]]}',
    ],
)
def test_what_is_no_ledger_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"'/t/ledger-1\.json' is no ingestion ledger"):
        ledger_from_json(data, "/t/ledger-1.json")
