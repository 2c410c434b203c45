"""The texts of a tool that its vector is made of, by field."""

from __future__ import annotations

from typing import Any

FIELDS = ("name", "description", "parameter", "parameter_text", "server", "context")
"""Name, title and aliases; description, hint and instructions; names of parameters; their
descriptions and values; the server's name; category and the server's description."""

LIMITS = (48, 256, 96, 192, 16, 64)
"""At most so many tokens of each field count."""

POWERS = (0.5, 0.5, 1.0, 1.0, 0.5, 0.5)
"""By how much each field is damped as it grows longer. Those of parameters fully: long lists of them, which many
tools of a server share, must not outweigh name and description."""

_MAX_DEPTH = 16


def fields(tool: dict[str, Any]) -> list[str]:
    """The text of each field of [`FIELDS`], its pieces separated by line breaks."""
    name = _lines(tool.get("name"), tool.get("title"), *(tool.get("aliases") or []))
    description = _lines(tool.get("description"), tool.get("search_hint"), tool.get("prompt_instructions"))
    names: list[str] = []
    texts: list[str] = []
    schema = next((tool[key] for key in ("inputSchema", "input_schema", "parameters") if key in tool), None)
    _children(schema, names, texts, _MAX_DEPTH)
    context = _lines(tool.get("category"), tool.get("server_description"))
    return [name, description, "\n".join(names), "\n".join(texts), _lines(tool.get("server")), context]


def _lines(*texts: Any) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _schema(schema: Any, names: list[str], texts: list[str], depth: int) -> None:
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("description"), str):
        texts.append(schema["description"])
    values = schema.get("enum")
    values = list(values) if isinstance(values, list) else []
    if "const" in schema:
        values.append(schema["const"])
    texts.extend(value for value in values if isinstance(value, str))
    _children(schema, names, texts, depth)


def _children(schema: Any, names: list[str], texts: list[str], depth: int) -> None:
    if not isinstance(schema, dict) or depth == 0:
        return
    for key, value in schema.items():
        if key in ("properties", "patternProperties") and isinstance(value, dict):
            for name, property_schema in value.items():
                names.append(name)
                _schema(property_schema, names, texts, depth - 1)
        elif key in ("$defs", "definitions") and isinstance(value, dict):
            for definition in value.values():
                _schema(definition, names, texts, depth - 1)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            for branch in value:
                _schema(branch, names, texts, depth - 1)
        elif key in ("items", "additionalProperties", "if", "then", "else"):
            _schema(value, names, texts, depth - 1)
