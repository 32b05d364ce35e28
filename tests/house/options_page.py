"""`docs/options.md`, made from the options by `make options`."""

from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType

from paimon_assets.engine.add_ons import ADD_ONS
from paimon_assets.engine.spec import options
from paimon_assets.engine.spec.options import file_options
from paimon_assets.engine.spec.options import option as kinds
from paimon_assets.engine.spec.options.all_options import Option

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"
COMMAND = "make options"
NO_TABLE_OPTIONS = {"all_options", "catalog_options"}

_TYPES: dict[object, str] = {
    int: "integer",
    float: "number",
    str: "text",
    str.lower: "text",
    kinds.parse_bool: "true or false",
    kinds.parse_memory: "size",
    kinds.parse_duration_ms: "duration",
    kinds.parse_ratio: "0 to 1",
    kinds.parse_zone: "time zone",
    kinds.parse_instant_ms: "time",
    kinds.parse_instants_ms: "two times",
    kinds.parse_pair: "two texts",
    kinds.parse_names: "names",
    kinds.parse_part: "text",
    kinds.parse_folder: "folder",
    kinds.parse_folders: "folders",
    file_options.parse_positive: "integer above 0",
    file_options.parse_share: "above 0, below 1",
}
"""Parser → words for the values it takes; other parsers are named by their values."""
_HEAD = f"""# Table options

Every option this engine obeys; made from `engine/spec/options` by `{COMMAND}`.
*Obeyed by* says `read`, `write` or both; commits, compactions and maintenance count as writes. A
size is `128 mb`, a duration `10 s`. Names are a list with commas. Values are judged when a table
is created or altered. Other keys are kept for the engines that know them. If one looks like a
misspelt key of this page, there is a warning. [supported.md](supported.md) says which features of
Paimon are supported.
"""


def option_modules() -> list[ModuleType]:
    """Return the modules that declare table options, by name."""
    names = sorted(path.stem for path in Path(*options.__path__).glob("*_options.py"))
    own = (
        import_module(f"{options.__name__}.{name}")
        for name in names
        if name not in NO_TABLE_OPTIONS
    )
    return [*own, *(each.load("options") for each in ADD_ONS)]


def options_of(module: ModuleType) -> list[Option[object]]:
    """Return the options of a module in its order."""
    return [value for value in vars(module).values() if isinstance(value, Option)]


def page() -> str:
    """Return the text of `docs/options.md`."""
    return _HEAD + "".join(map(_section, option_modules()))


def _section(module: ModuleType) -> str:
    name = module.__name__.removesuffix(".options").rpartition(".")[2]  # of an add-on its package's
    title = name.removesuffix("_options").capitalize()
    summary = (module.__doc__ or "").partition("\n")[0]
    rows = "".join(map(_row, options_of(module)))
    return (
        f"\n## {title}\n\n{summary}\n\n"
        f"| key | type | default | meaning | obeyed by |\n|---|---|---|---|---|\n{rows}"
    )


def _row(option: Option[object]) -> str:
    keys = " or ".join(f"`{key}`" for key in (option.key, *option.fallback_keys))
    cells = (keys, _type(option), _default(option), option.description, option.use)
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |\n"


def _type(option: Option[object]) -> str:
    if isinstance(option.default, Enum):
        return ", ".join(f"`{member.value}`" for member in type(option.default))
    name = getattr(option.parser, "__name__", "")
    return _TYPES.get(option.parser) or name.removeprefix("parse_").replace("_", " ")


def _default(option: Option[object]) -> str:
    match option.default:
        case None | "" | () | {}:
            return ""
        case bool(value):
            return str(value).lower()
        case int(value) if option.parser is kinds.parse_memory:
            return _with_unit(value, {"gb": 1024**3, "mb": 1024**2, "kb": 1024, "b": 1})
        case int(value) if option.parser is kinds.parse_duration_ms:
            return _with_unit(value, {"d": 86_400_000, "h": 3_600_000, "s": 1000, "ms": 1})
        case value:
            return f"`{value}`"


def _with_unit(value: int, units: dict[str, int]) -> str:
    fitting = (unit for unit, size in units.items() if value % size == 0)
    return f"`{value // units[unit]} {unit}`" if value and (unit := next(fitting)) else "`0`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
