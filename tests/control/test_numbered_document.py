"""A document that is changed by its next number loses no change, whoever makes it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from paimon_assets.engine.control.catalog.catalog_state import NumberedDocument
from paimon_assets.engine.errors import CommitUnknownError, FormatError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO


@pytest.fixture
def document(tmp_path):
    return NumberedDocument(LocalFileIO(), str(tmp_path), "names")


def added(name):
    return lambda members: {**members, name: 1}


def test_nothing_is_there_at_first(document):
    assert document.read() == {}


def test_a_change_is_read_back_and_old_numbers_go(document, tmp_path):
    for number in range(30):
        document.change(added(f"n{number}"))
    assert document.read() == {f"n{number}": 1 for number in range(30)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"names-{number}.json" for number in range(23, 31)
    )


def test_what_changes_nothing_publishes_nothing(document, tmp_path):
    document.change(added("a"))
    document.change(added("a"))
    assert [path.name for path in tmp_path.iterdir()] == ["names-1.json"]


def test_many_at_once_lose_nothing(document):
    def add(name):
        while name not in document.read():  # who stood still too long looks, as it is told to
            with suppress(CommitUnknownError):
                document.change(added(name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, map(str, range(400))))
    assert set(document.read()) == set(map(str, range(400)))


def test_who_slept_through_many_changes_publishes_nothing_old(document, tmp_path):
    document.change(added("a"))
    slow = []

    def late(members):
        if not slow:
            slow.append(dict(members))
            for number in range(20):
                document.change(added(f"n{number}"))
        return {**members, "late": 1}

    document.change(late)
    assert slow == [{"a": 1}]
    assert set(document.read()) == {"a", "late", *(f"n{number}" for number in range(20))}
    numbers = sorted(int(path.stem.partition("-")[2]) for path in tmp_path.iterdir())
    assert numbers == list(range(15, 23))


def test_what_a_change_raises_ends_it(document, tmp_path):
    def refused(members):
        raise InvalidInputError("no")

    with pytest.raises(InvalidInputError):
        document.change(refused)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [b"{", b"[]", b"\xff"])
def test_damage_names_the_file(document, tmp_path, damage):
    (tmp_path / "names-1.json").write_bytes(damage)
    with pytest.raises(FormatError, match=r"names-1\.json"):
        document.read()
