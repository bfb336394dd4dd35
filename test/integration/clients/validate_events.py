"""Validates events and objects of streams by the models of the official clients, strictly, and prints what it found as one JSON object.

Usage: validate_events.py FILE. FILE has one JSON object per line: {"kind", "data"}. The kind is `openai event`, `openai response`,
`anthropic event` or `anthropic message`. An event is validated by the model of its type alone, so that no other model of the union
accepts it. Strict: no text is a number, no float an integer. `unknown`: fields that no model declares, by their path.
"""
import json
import sys
import typing

import anthropic.types
import openai.types.responses
import pydantic


def members(union):
    """The models of a union, by their type."""
    if typing.get_origin(union) is typing.Annotated:
        return members(typing.get_args(union)[0])
    if typing.get_origin(union) is None:
        (name,) = typing.get_args(union.model_fields["type"].annotation)
        return {name: union}
    return {name: model for part in typing.get_args(union) for name, model in members(part).items()}


EVENTS = {
    "openai event": members(openai.types.responses.ResponseStreamEvent),
    "anthropic event": {**members(anthropic.types.RawMessageStreamEvent), "error": anthropic.types.ErrorResponse},
}
OBJECTS = {"openai response": openai.types.responses.Response, "anthropic message": anthropic.types.Message}


def unknown_of(value, path):
    """Paths of the fields that no model declares; also of values that no model read, although they are objects."""
    if isinstance(value, pydantic.BaseModel):
        for name in value.model_extra or {}:
            yield f"{path}.{name}"
        for name in type(value).model_fields:
            yield from unknown_of(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from unknown_of(one, f"{path}[]")


def problems_of(error):
    """Without those of the members of a union that have another type."""
    errors = error.errors(include_url=False, include_input=False)
    others = [one["loc"][:-1] for one in errors if one["loc"][-1:] == ("type",) and one["type"] == "literal_error"]
    told = [one for one in errors if not any(one["loc"][: len(other)] == other for other in others)]
    return [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in told or errors]


problems, unknown, seen = [], set(), {}
with open(sys.argv[1]) as lines:
    for line in lines:
        given = json.loads(line)
        kind, data = given["kind"], given["data"]
        name = data.get("type") if kind in EVENTS else kind
        model = EVENTS[kind].get(name) if kind in EVENTS else OBJECTS[kind]
        if model is None:
            problems.append(f"{kind} {name}: there is no such event")
            continue
        seen[f"{kind} {name}" if kind in EVENTS else kind] = seen.get(name, 0) + 1
        try:
            read = model.model_validate_json(json.dumps(data), strict=True)
        except pydantic.ValidationError as error:
            problems += [f"{kind} {name}: {problem}" for problem in problems_of(error)]
            continue
        unknown.update(unknown_of(read, name))
print(json.dumps({"problems": sorted(set(problems)), "unknown": sorted(unknown), "seen": sorted(seen)}))
