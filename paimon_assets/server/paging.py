"""Lists over all databases, in pages."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.server.request import Request, prefix_of

_SEPARATOR = "\x01"
"""Between database and name in a page's token: in no name, and in front of everything in them."""


def across_databases(
    request: Request,
    pattern_name: str,
    databases: Sequence[str],
    names: Callable[[str, str], Iterable[str]],
) -> tuple[list[tuple[str, str]], str | None]:
    """Return a page of (database, name), and the token of the next.

    Args:
        request: Says which page, and the patterns `databaseNamePattern` and the other one.
        pattern_name: The parameter of that one.
        databases: All of them, sorted.
        names: (database, prefix) → its names that may be listed, sorted.
    """
    page = request.page()
    of_database = request.page("databaseNamePattern")
    of_name = request.page(pattern_name)
    prefix = prefix_of(of_name.pattern or "")

    def all_names() -> Iterator[str]:
        for database in databases:
            behind = database >= page.after.partition(_SEPARATOR)[0]
            if not (behind and of_database.matches(database)):
                continue
            try:
                found = names(database, prefix)
                yield from (f"{database}{_SEPARATOR}{n}" for n in found if of_name.matches(n))
            except NotFoundError:
                continue  # dropped since

    found, token = page.of(all_names())
    parts = (name.partition(_SEPARATOR) for name in found)
    return [(database, name) for database, _, name in parts], token
