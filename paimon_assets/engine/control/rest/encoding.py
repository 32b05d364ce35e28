"""Names in paths and values in queries, encoded as Java's client does.

Source: `org.apache.paimon.rest.RESTUtil`.
"""

from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from paimon_assets.engine.errors import InvalidInputError

_DOTS = frozenset({"", ".", ".."})


def path_of(*parts: str) -> str:
    """Return a path of encoded names, beginning with a slash.

    >>> path_of("v1", "databases", "a b*~$/%")
    '/v1/databases/a+b*%7E%24%2F%25'
    """
    for part in parts:
        if part in _DOTS:
            raise InvalidInputError(f"{part!r} is no name in a catalog.", kind="name")
    return "".join(f"/{form_encoded(part)}" for part in parts)


def form_encoded(text: str) -> str:
    """Return a text as Java's `URLEncoder` writes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def query_text(query: Mapping[str, str]) -> str:
    """Return a query with its question mark, an empty text if there is nothing to ask.

    >>> query_text({"tableNamePattern": "a b%", "pageToken": ""})
    '?tableNamePattern=a%20b%25&pageToken='
    """
    pairs = [f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in query.items()]
    return f"?{'&'.join(pairs)}" if pairs else ""
