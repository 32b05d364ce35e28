"""Names that become one file or directory: of tags, branches and consumers."""

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.paths import plain_name

_FORBIDDEN = "/\\$"


def check_file_name(noun: str, name: str) -> str:
    """Return a name that may become a part of a path."""
    fault = None
    if not name.strip() or name != name.strip():
        fault = "is blank, or has blanks around it"
    elif any(character in _FORBIDDEN or not character.isprintable() for character in name):
        fault = "holds a slash, a dollar sign or a control character"
    if fault is not None:
        raise InvalidInputError(
            f"{name!r} is no name of a {noun}: it {fault}.", kind="name", details={noun: name}
        )
    return name


def known_file_name(noun: str, name: str) -> str:
    """Return a name of an existing item, which other engines may have made by other rules."""
    try:
        return plain_name(name)
    except ValueError as error:
        raise InvalidInputError(
            f"{name!r} is no name of a {noun}: {error}.", kind="name", details={noun: name}
        ) from error
