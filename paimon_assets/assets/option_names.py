"""Names of options that nobody knows, refused when they are given: with the one that was meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from paimon_assets.engine.errors import InvalidInputError


def refuse_unknown(given: Iterable[str], known: Iterable[str], owner: str, *, kind: str) -> None:
    """Refuse names that are not known.

    >>> refuse_unknown(["mode"], ["mode", "table"], "paimon_output", kind="output-option")
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise InvalidInputError(
                f"{owner} has no '{name}'.{hint} It takes {', '.join(names)}.",
                kind=kind,
                details={"option": name},
            )
