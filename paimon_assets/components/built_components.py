"""Components made from `build_` functions: each parameter that YAML can hold is a field.

    build_table_health_asset(key, *, tables, limits, …) ─▶ key: health, tables: […], limits: {…}

A value, such as `SegmentSource`, is a mapping of its own fields; a function is named as
'.module.name'; `schema` and `asset` are the fields of the table and of `dg.asset`.
"""

import datetime as dt
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import dagster as dg
from dagster.components.resolved.core_models import ResolvedAssetAttributes
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields
from pydantic import Field, create_model

from paimon_assets.assets import translator
from paimon_assets.components.catalog_components import (
    OF_THE_RESOURCE,
    DescribedModel,
    Names,
    Secret,
    Secrets,
    Text,
    Texts,
    config_of,
    example,
)
from paimon_assets.components.table_components import (
    DeclaredTableModel,
    SchemaModel,
    TableCheck,
    asset_named,
    duration_of,
    function_at,
)
from paimon_assets.engine.spec.schema.schema import Schema


def _field_of(kind: Any, shown: Any, make: Callable[[Any], Any]) -> Any:
    """Return a field's type: YAML has the value as `shown`, and `make` takes it."""
    resolve = dg.Resolver(
        lambda _, value: None if value is None else make(value),
        model_field_type=shown,
        inject_before_resolve=False,
    )
    return Annotated[kind, resolve]


_ANY = Annotated[Any, dg.Resolver.passthrough()]
_FIELDS: Mapping[Any, Any] = {
    **{kind: kind for kind in (bool, int, float)},
    str: Text,
    Schema: SchemaModel,
    dt.timedelta: _field_of(dt.timedelta, str, duration_of),
    dg.AssetCheckSeverity: _field_of(
        dg.AssetCheckSeverity,
        Literal["warn", "error"],
        lambda text: dg.AssetCheckSeverity[text.upper()],
    ),
    dg.DynamicPartitionsDefinition: _field_of(
        dg.DynamicPartitionsDefinition, str, lambda name: dg.DynamicPartitionsDefinition(name=name)
    ),
}


class ValueModel(DescribedModel):
    """The fields of a value."""

    kind: ClassVar[Callable[..., Any]]

    def build(self) -> Any:
        return type(self).kind(**_values(self))


def _values(model: DescribedModel) -> dict[str, Any]:
    """Return the fields that are set, as a function takes them."""
    values = {name: getattr(model, name) for name in type(model).model_fields}
    return {name: _value(each) for name, each in values.items() if each is not None}


def _value(field: Any) -> Any:
    if isinstance(field, ValueModel):
        return field.build()
    if isinstance(field, SchemaModel):
        return field.table_schema()
    if isinstance(field, dict):
        return {name: _value(each) for name, each in field.items()}
    return field


@cache
def _model_of(kind: type[Struct]) -> type[ValueModel]:
    """Return the model of a value; fields that YAML cannot hold keep their defaults."""
    hints, members = get_type_hints(kind, include_extras=True), {}
    for each in fields(kind):
        field_type = _field_type(hints[each.name])
        is_needed = each.default is NODEFAULT and each.default_factory is NODEFAULT
        text = f"As `{kind.__name__}.{each.name}`."
        if field_type is not None and each.name != "schema":  # a method of models
            members[each.name] = _member(field_type, text, is_needed=is_needed)
    model: type[ValueModel] = create_model(
        f"{kind.__name__}Model", __base__=ValueModel, __module__=__name__, **members
    )
    model.kind = kind
    return model


def _member(field_type: Any, text: str, *, is_needed: bool = False) -> Any:
    if is_needed:
        return field_type, Field(description=text)
    return field_type | None, Field(default=None, description=text)


def _field_type(hint: Any) -> Any:
    """Return the type of the field for a parameter, None if YAML cannot hold its values."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _type_of_any(parts)
    if origin is Mapping:
        field_type = _field_type(parts[1])
        known = {Text: Texts, Secret: Secrets}
        return known.get(field_type) or (None if field_type is None else dict[str, field_type])  # type: ignore[valid-type]  # made at run time
    if origin is Sequence:
        return Names if _field_type(parts[0]) is Text else None
    if origin is Literal or hint in _FIELDS:
        return _FIELDS.get(hint, hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _model_of(hint)
    if isinstance(hint, type) and issubclass(hint, dg.Config):
        return _field_of(hint, dict[str, Any], lambda values: config_of(hint, values))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _field_of(hint, Literal[tuple(each.value for each in hint)], hint)
    return None


def _type_of_any(parts: Sequence[Any]) -> Any:
    if dg.EnvVar in parts:
        return Secret
    own = [each for part in parts if part is not NoneType and (each := _field_type(part))]
    kinds = [*dict.fromkeys(own)]
    if Names in kinds:
        return Names  # a key in parts
    if len(kinds) > 1 and not all(isinstance(each, type) for each in kinds):
        return _ANY
    return reduce(or_, kinds) if kinds else None


class BuiltComponent:
    """The definitions that a `build_` function returns, and those that go with them."""

    made_by: ClassVar[Callable[..., Any]]
    sensor_of: ClassVar[Callable[..., dg.SensorDefinition] | None]
    code: ClassVar[frozenset[str]]
    """Fields that name a function."""
    further: ClassVar[frozenset[str]]
    """Fields that are options of `dg.asset`, or of ours beside them."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        kind: Any = type(self)
        parameters = inspect.signature(kind.made_by).parameters.values()
        names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
        arguments = _values(self)  # type: ignore[arg-type]  # each such class is a model, too
        arguments |= {
            name: function_at(context, arguments[name]) for name in kind.code & arguments.keys()
        }
        if "schema" in names:
            arguments["schema"] = self.table_schema()  # type: ignore[attr-defined]
        if "asset" in names:
            arguments["asset"] = asset_named(self)
        passed = {name: value for name, value in arguments.items() if name in names}
        if isinstance(self, DeclaredTableModel):
            passed |= self.asset_options()
        elif isinstance(self, AssetModel):
            passed |= {**self.asset}
        passed |= {name: arguments[name] for name in kind.further if name in arguments}
        made = kind.made_by(**passed)
        listed = made if isinstance(made, list) else [made]
        parts = {name: arguments[name] for name in ("schema", "source") if name in arguments}
        checks = [each for each in listed if isinstance(each, dg.AssetChecksDefinition)]
        assets = [each for each in listed if isinstance(each, dg.AssetsDefinition) and not checks]
        checks += [each.build(made, **parts) for each in getattr(self, "checks", ())]
        sensors = [each for each in listed if isinstance(each, dg.SensorDefinition)]
        if kind.sensor_of is not None and arguments.get("sensor", True):
            sensors.append(kind.sensor_of(made, source=arguments["source"]))
        return dg.Definitions(
            assets=assets,
            asset_checks=checks,
            jobs=[each for each in listed if isinstance(each, dg.JobDefinition)],
            sensors=sensors,
            schedules=[_schedule(each, arguments) for each in assets if "schedule" in arguments],
        )


def _schedule(asset: dg.AssetsDefinition, arguments: Mapping[str, Any]) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=f"{asset.node_def.name}_schedule",
        target=asset,
        cron_schedule=arguments["schedule"],
        execution_timezone=arguments["timezone"],
    )


class AssetModel(dg.Component, DescribedModel):
    """The fields of assets that are no declared table."""

    asset: ResolvedAssetAttributes = Field(
        default={}, description="group_name, owners, deps, tags, automation_condition ..."
    )
    schedule: Text | None = Field(
        default=None, description="Cron of a schedule, such as '0 3 * * *'; shipped stopped."
    )
    timezone: str = Field(default="UTC", description="Time zone of the schedule.")


class _WithChecks(AssetModel):
    checks: list[TableCheck] = Field(default=[], description="Checks of the table.")


class _PlainModel(dg.Component, DescribedModel):
    pass


def component_of(
    module: str,
    name: str,
    function: Callable[..., Any],
    scaffolded: Mapping[str, Any],
    *,
    files: Mapping[str, str] | None = None,
    table: str = "",
    sensor_of: Callable[..., dg.SensorDefinition] | None = None,
    kinds: Mapping[str, Any] | None = None,
) -> type[dg.Component]:
    """Return a component whose fields are the parameters of a function.

    Args:
        module: The module that defines the component.
        name: The component's.
        function: It returns an asset or a list of them, a job, or a sensor.
        scaffolded: Fields that `dg scaffold defs` writes; see `example`.
        files: Files that it writes beside the YAML.
        table: YAML of the table that the example needs, if its own flag names none.
        sensor_of: Returns a sensor for the asset and its `source`.
        kinds: Parameter → its kind in YAML, where the annotation is wider.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    has_options = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    base: type[Any] = _PlainModel
    if "schema" in parameters:
        base = DeclaredTableModel
    elif has_options:
        base = _WithChecks if "columns" in parameters else AssetModel
    texts, code = _texts_of(function), set()
    members: dict[str, Any] = {}
    for parameter in parameters.values():
        own, hint = parameter.name, (kinds or {}).get(parameter.name, parameter.annotation)
        if parameter.kind is parameter.VAR_KEYWORD or own in base.model_fields or own == "schema":
            continue
        if own == "asset":
            members["table"] = (Text, Field(description="database.table"))
            members["asset_key"] = _member(
                Names, "Parts of the key; database and table by default."
            )
            continue
        is_needed = parameter.default is parameter.empty
        field_type = _field_type(hint)
        if Callable in (get_origin(hint), *map(get_origin, get_args(hint))) or (
            get_origin(hint) is get_origin(Callable[..., Any])
        ):
            field_type = Text
            code.add(own)
        if field_type is not None:
            members[own] = _member(field_type, texts.get(own, own), is_needed=is_needed)
    further = {name for name in kinds or {} if name not in parameters}
    members |= {
        name: _member(_field_type((kinds or {})[name]), f"As of `paimon_asset`: {name}.")
        for name in further
    }
    if base in (AssetModel, _WithChecks) and "resource_key" not in parameters:
        further.add("resource_key")
    if base is not DeclaredTableModel and (has_options or "asset" in parameters):
        members["resource_key"] = (
            str,
            Field(default=translator.DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE),
        )
    if sensor_of is not None:
        members["sensor"] = (
            bool,
            Field(default=True, description="A sensor on new data; shipped stopped."),
        )
    made: Any = create_model(name, __base__=(BuiltComponent, base), __module__=module, **members)
    made.__doc__ = (inspect.getdoc(function) or "").partition("\n")[0]
    made.made_by, made.code, made.further = staticmethod(function), frozenset(code), further
    made.sensor_of = None if sensor_of is None else staticmethod(sensor_of)
    texts_alone = [key for key, (kind, _) in members.items() if kind in (Text, Text | None)]
    scaffolder = example(scaffolded, files, optional=texts_alone, table=table)
    component: type[dg.Component] = dg.scaffold_with(scaffolder)(made)
    return component


def _texts_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return parameter → its text in the docstring."""
    part = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", part, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
