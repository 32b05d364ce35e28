"""Values as messages and metadata show them: some characters, or none where they are private."""

SHOWN_CHARACTERS = 60
MASKED = "(not shown)"


def sample(value: object, *, show: bool = True) -> str:
    """Return a value as text of bounded length; the rows of a table hold people's data.

    >>> sample("x" * 1_000_000) == "'" + "x" * 59 + "…"
    True
    >>> sample(4711, show=False)
    '(not shown)'
    """
    return _cut(value, quoted=True) if show else MASKED


def plain_sample(value: object, *, show: bool = True) -> str:
    """Return a value as `sample` does, without quotes around texts.

    >>> plain_sample("air"), plain_sample(None)
    ('air', 'null')
    """
    if not show:
        return MASKED
    return "null" if value is None else _cut(value, quoted=False)


def _cut(value: object, *, quoted: bool) -> str:
    if isinstance(value, str | bytes | bytearray):
        value = value[: SHOWN_CHARACTERS + 1]  # a text of gigabytes is not copied
    text = repr(value) if quoted else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
