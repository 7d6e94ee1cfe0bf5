from typing import Annotated, Literal

from pydantic import BaseModel, Field

from autopatch.chassis.llm.schema import schema_of


class Scale(BaseModel):
    kind: Literal["scale"]
    replicas: int = Field(default=1, ge=1)


class Reload(BaseModel):
    kind: Literal["reload"] = "reload"


class Answer(BaseModel):
    title: str = Field(pattern="^a", description="short")
    action: Annotated[Scale | Reload, Field(discriminator="kind")]
    default: int = 3


def test_every_field_is_required_and_nothing_else_is_allowed() -> None:
    schema = schema_of(Answer)
    assert schema["required"] == ["title", "action", "default"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Scale"]["required"] == ["kind", "replicas"]


def test_what_an_endpoint_would_refuse_or_silently_ignore_is_left_out() -> None:
    schema = schema_of(Answer)
    assert "pattern" not in schema["properties"]["title"] and schema["properties"]["title"]["description"] == "short"
    assert "anyOf" in schema["properties"]["action"] and "oneOf" not in schema["properties"]["action"]
    assert "discriminator" not in schema["properties"]["action"]


def test_bounds_and_choices_stay() -> None:
    schema = schema_of(Scale)
    assert schema["properties"]["replicas"] == {"minimum": 1, "type": "integer"}
    assert schema["properties"]["kind"]["const"] == "scale"


def test_fields_named_like_keywords_survive() -> None:
    assert set(schema_of(Answer)["properties"]) == {"title", "action", "default"}
