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
    scripts, faults, turns = schedule.scripts, schedule.faults, schedule.turns
    for number, script in enumerate(scripts):  # one without operations keeps its actor's number
        rest = [()] * bool(script) + [script[:n] + script[n + 1 :] for n in range(len(script))]
        for left in rest:
            yield replace(schedule, scripts=(*scripts[:number], left, *scripts[number + 1 :]))
    for place in range(len(faults)):
        yield replace(schedule, faults=faults[:place] + faults[place + 1 :])
    size = len(turns) // 2
    while size:
        for start in range(0, len(turns), size):
            yield replace(schedule, turns=_join(turns[:start] + turns[start + size :]))
        size //= 2


def _join(turns: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for number, calls in turns:
        if joined and joined[-1][0] == number:
            joined[-1] = (number, joined[-1][1] + calls)
        else:
            joined.append((number, calls))
    return tuple(joined)
