"""From a run that fails to a small one that fails in the same way."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.runs import Schedule, replay


def failure_of(schedule: Schedule) -> str | None:
    """Return the error of a run, without names and numbers; None if there is none."""
    try:
        replay(schedule)
    except AssertionError as error:
        return " ".join(word for word in str(error).split() if word.isalpha())[:60]
    except Exception as error:  # noqa: BLE001 - an error that is none of ours is a failure, too
        return type(error).__name__
    return None


def shrunk(schedule: Schedule) -> Schedule:
    """Leave out actors, operations, faults and turns, as long as the run fails."""
    failure = failure_of(schedule)
    assert failure is not None, "the schedule does not fail when it is run again"
    smaller: Schedule | None = schedule
    while smaller is not None:
        schedule = smaller
        smaller = next((each for each in _smaller(schedule) if failure_of(each) == failure), None)
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    for number, script in enumerate(schedule.scripts):
        if script:  # an actor without a script keeps its number, so all actors do
            yield _with_script(schedule, number, ())
            for place in range(len(script)):
                if len(script) > 1:
                    yield _with_script(schedule, number, script[:place] + script[place + 1 :])
    for place in range(len(schedule.faults)):
        faults = schedule.faults
        yield replace(schedule, faults=faults[:place] + faults[place + 1 :])
    turns, size = schedule.turns, len(schedule.turns) // 2
    while size:
        for start in range(0, len(turns), size):
            yield replace(schedule, turns=_join(turns[:start] + turns[start + size :]))
        size //= 2


def _with_script(schedule: Schedule, number: int, script: tuple[str, ...]) -> Schedule:
    scripts = list(schedule.scripts)
    scripts[number] = script
    turns, faults = schedule.turns, schedule.faults
    if not script:
        turns = _join(tuple(turn for turn in turns if turn[0] != number))
        faults = tuple(fault for fault in faults if fault[0] != number)
    return replace(schedule, scripts=tuple(scripts), turns=turns, faults=faults)


def _join(turns: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for number, calls in turns:
        if joined and joined[-1][0] == number:
            joined[-1] = (number, joined[-1][1] + calls)
        else:
            joined.append((number, calls))
    return tuple(joined)
