"""Notes where what came from a server is not as the SDK's types say. The SDKs themselves take almost anything."""

from pydantic import BaseModel, ValidationError

faults = set()


def checked(value):
    """Notes where `value`, which came from the server, is not what its type says."""
    kind = type(value).__name__
    try:
        sent = value.model_dump_json(exclude_unset=True, by_alias=True, warnings=False)
        type(value).model_validate_json(sent)
    except ValidationError as error:
        faults.update(f"{kind}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    surplus(value, kind)
    return value


def surplus(value, where):
    """Notes fields that no type knows."""
    if isinstance(value, (list, tuple)):
        for item in value:
            surplus(item, where)
    elif isinstance(value, BaseModel):
        faults.update(f"{where}: unknown field `{name}`" for name in value.model_extra or {})
        for name in type(value).model_fields:
            surplus(getattr(value, name, None), f"{where}.{name}")


def of_kind(items, kind):
    return [item for item in items if item.type == kind]
