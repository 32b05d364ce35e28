"""The pair matrix: any two commands at once; nothing lost, doubled, missing, or touched outside.

A hunt goes through all of it; the suite takes a few pairs of it, and one seed.
"""

import itertools
import shutil

import pytest

from tests.testkit.effort import is_hunt
from tests.testkit.faults.pairs import (
    COMMANDS,
    check,
    copy_of,
    interleaved,
    outside,
    prepare,
    stepped,
)

PAIRS = list(itertools.product(COMMANDS, repeat=2))[:: 1 if is_hunt() else 29]
CALLS = 1 if is_hunt() else 12
"""From one moment of a command to the next at which the other comes."""
SEEDS = 25 if is_hunt() else 1

pytestmark = pytest.mark.hunt


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("scene")
    prepare(directory)
    return directory


def _id(pair):
    return f"{pair[0].name} x {pair[1].name}"


@pytest.mark.parametrize("pair", PAIRS, ids=_id)
def test_a_command_whole_before_each_storage_call_of_another(pair, scene, tmp_path):
    for call in itertools.count(step=CALLS):
        directory = tmp_path / str(call)
        before = copy_of(scene, directory)
        results = stepped(directory, *pair, call)
        if len(results) < 2:
            break
        try:
            check(directory, pair, results)
            assert outside(directory) == before
        except Exception as error:
            error.add_note(f"{_id(pair)}, call {call}: {results}")
            raise
        shutil.rmtree(directory)


@pytest.mark.parametrize("pair", PAIRS, ids=_id)
def test_two_commands_call_by_call_as_a_seed_says(pair, scene, tmp_path):
    for seed in range(SEEDS):
        directory = tmp_path / str(seed)
        before = copy_of(scene, directory)
        results = interleaved(directory, pair, seed)
        try:
            check(directory, pair, results)
            assert outside(directory) == before
        except Exception as error:
            error.add_note(f"{_id(pair)}, seed {seed}: {results}")
            raise
        shutil.rmtree(directory)
