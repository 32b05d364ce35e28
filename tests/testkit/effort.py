"""Effort: how much is drawn. Little and always the same in the suite, much and new in a hunt."""

from hypothesis import HealthCheck, settings

HUNT = "hunt"
_TIMES = 10
_DRAWN, _DRAWN_IN_A_HUNT = 16, 400
"""Examples of a property."""
_BASE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def register_profiles() -> None:
    """Load the suite's profile; `--hypothesis-profile=hunt`, as `make hunt`, takes the other."""
    settings.register_profile("suite", _BASE, derandomize=True, database=None, max_examples=_DRAWN)
    settings.register_profile(HUNT, _BASE, print_blob=True, max_examples=_DRAWN_IN_A_HUNT)
    settings.load_profile("suite")


def is_hunt() -> bool:
    return settings.get_current_profile_name() == HUNT


def often(times: int) -> int:
    """Return `times` in the suite, ten times as much in a hunt."""
    return times * _TIMES if is_hunt() else times
