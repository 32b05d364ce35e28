"""Words of messages that depend on a number."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends in s.

    >>> counted(1, "row"), counted(1234, "new file")
    ('1 row', '1,234 new files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
