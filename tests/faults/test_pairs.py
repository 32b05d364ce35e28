"""The pair matrix: any two commands at once; nothing lost, doubled, missing, or touched outside.

A hunt goes through all of it; the suite takes a few pairs of it, and one seed.
"""

import itertools
import shutil

import pytest

from tests.testkit.faults.pairs import (
    COMMANDS,
    check,
    copy_of,
    interleaved,
    outside,
    prepare,
    stepped,
)

PAIRS = list(itertools.product(COMMANDS, repeat=2))
SAMPLE = 29
SEEDS = 25

pytestmark = pytest.mark.hunt


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("scene")
    prepare(directory)
    return directory


@pytest.fixture
def hunts(request):
    return request.config.getoption("--hypothesis-profile") == "hunt"


def _id(pair):
    return f"{pair[0].name} x {pair[1].name}"


@pytest.mark.parametrize("pair", PAIRS, ids=_id)
def test_a_command_whole_before_each_storage_call_of_another(pair, scene, tmp_path, hunts):
    if not hunts and PAIRS.index(pair) % SAMPLE:
        pytest.skip("a hunt does it")
    for call in itertools.count(step=1 if hunts else 12):
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
def test_two_commands_call_by_call_as_a_seed_says(pair, scene, tmp_path, hunts):
    if not hunts and PAIRS.index(pair) % SAMPLE:
        pytest.skip("a hunt does it")
    for seed in range(SEEDS if hunts else 1):
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
