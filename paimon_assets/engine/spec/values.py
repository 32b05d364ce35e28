"""Values: frozen structs, whose classes cost a tenth of a dataclass's when they are imported."""

from collections.abc import Sequence
from typing import Any, dataclass_transform

from msgspec import Struct, StructMeta, field


class ValueType(StructMeta):
    """Makes frozen classes with parameters by name, unless the class's line has it otherwise."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        frozen: bool = True,
        kw_only: bool = True,
        hidden: Sequence[str] = (),
        **config: Any,
    ) -> Any:
        """Make a class; `hidden` fields, such as secrets, are not in its `repr`."""
        if hidden:

            def items(self: Struct) -> list[tuple[str, Any]]:
                names = (each for each in self.__struct_fields__ if each not in hidden)
                return [(each, getattr(self, each)) for each in names]

            def text(self: Struct) -> str:
                return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in items(self))})"

            namespace = {"__repr__": text, "__rich_repr__": items, **namespace}
        return super().__new__(
            mcs, name, bases, namespace, frozen=frozen, kw_only=kw_only, **config
        )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, metaclass=ValueType):
    """Base of values: frozen, made by names, equal by their fields."""
