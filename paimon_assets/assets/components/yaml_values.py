"""Values of a component's YAML as they are written there; the example that `dg scaffold` writes.

Dagster renders every text of a YAML as a template and takes the outcome for a Python value: `0x10`
becomes 16, `1,2` a tuple. Of a table's options, columns and names no text may become another.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel

from paimon_assets.engine.errors import InvalidInputError


def text_of(context: dg.ResolutionContext, value: object) -> str:
    """Return a text: `{{ env.X }}` is filled in, all else stays as it is written."""
    text = str(value)
    if "{{" not in text:
        return text
    # Behind a mark the outcome stays a text.
    return str(context.resolve_value(f"={text}")).removeprefix("=")


def secret_of(context: dg.ResolutionContext, value: Any) -> Any:
    """Return a text, or of `{env: NAME}` the variable, which the UI shows by its name."""
    if not isinstance(value, dict):
        return text_of(context, value)
    if list(value) != ["env"]:
        raise InvalidInputError(
            f"A value with {', '.join(map(repr, value))} is unknown; write a text, or "
            "{env: NAME} for an environment variable.",
            kind="component",
        )
    return dg.EnvVar(str(value["env"]))


def _each(resolve: Callable[[dg.ResolutionContext, Any], Any]) -> dg.Resolver:
    """Return the resolver of a mapping whose values are resolved one by one."""

    def resolve_all(context: dg.ResolutionContext, values: Any) -> dict[str, Any]:
        return {str(key): resolve(context, value) for key, value in dict(values or {}).items()}

    return dg.Resolver(resolve_all, model_field_type=dict[str, Any], inject_before_resolve=False)


class DescribedModel(dg.Model, dg.Resolvable):
    """A model whose fields keep their descriptions in the UI and in editors.

    Dagster 1.13 drops those of fields with a default.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model of the YAML."""
        derived = super().model()
        for name, field in derived.model_fields.items():
            field.description = field.description or cls.model_fields[name].description
        derived.model_rebuild(force=True)
        return derived


Text = Annotated[str, dg.Resolver(text_of, model_field_type=str, inject_before_resolve=False)]
Texts = Annotated[dict[str, str], _each(text_of)]
Names = Annotated[list[str], dg.Resolver.passthrough()]
Secret = Annotated[
    Any, dg.Resolver(secret_of, model_field_type=str | dict[str, str], inject_before_resolve=False)
]
Secrets = Annotated[dict[str, Any], _each(secret_of)]

OF_THE_RESOURCE = "Key of the catalog's resource; PaimonCatalogComponent makes one called paimon."
"""The description of `resource_key`, where a component takes one."""


def example(
    attributes: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> type[dg.Scaffolder[Any]]:
    """Return a scaffolder of one example, with files beside the YAML: name → text."""

    class Example(dg.Scaffolder[Any]):
        """Writes the example."""

        def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
            """Write the files."""
            for name, text in (files or {}).items():
                (request.target_path / name).write_text(text, encoding="utf-8")
            dg.scaffold_component(request, attributes)

    return Example
