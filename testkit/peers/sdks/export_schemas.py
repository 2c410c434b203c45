"""Writes the request types of the providers' SDKs as JSON Schemas: `export_schemas.py OUT_DIR`.

Objects are closed, so that a field that no SDK would send is an error. Free maps stay free.
Validating with pydantic itself would not do: it leaves iterables for later and never looks
into them.
"""

import sys

sys.dont_write_bytecode = True

import json
from pathlib import Path
from typing import Optional

from anthropic.types import message_create_params as messages
from google.genai import types as gemini
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel


class GenerateContentRequest(BaseModel):
    """The body that google-genai makes of its parameters (`_GenerateContentParameters_to_mldev`);
    it has no type of its own."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[gemini.Content]
    system_instruction: Optional[gemini.Content] = None
    tools: Optional[list[gemini.Tool]] = None
    tool_config: Optional[gemini.ToolConfig] = None
    safety_settings: Optional[list[gemini.SafetySetting]] = None
    generation_config: Optional[gemini.GenerationConfig] = None
    cached_content: Optional[str] = None


REQUESTS = {
    "anthropic": messages.MessageCreateParamsNonStreaming,
    "anthropic-streamed": messages.MessageCreateParamsStreaming,
    "chat": chat.CompletionCreateParamsNonStreaming,
    "chat-streamed": chat.CompletionCreateParamsStreaming,
    "responses": responses.ResponseCreateParamsNonStreaming,
    "responses-streamed": responses.ResponseCreateParamsStreaming,
    "gemini": GenerateContentRequest,
}

# Keywords whose values are schemas by name, and those whose values are data.
NAMED = ("properties", "$defs")
DATA = ("const", "default", "enum", "examples")


def close(schema):
    """Forbids what is not listed, wherever something is listed."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {}
    for key, value in schema.items():
        if key in NAMED:
            closed[key] = {name: close(inner) for name, inner in value.items()}
        else:
            closed[key] = value if key in DATA else close(value)
    # Types of answers, which a request may hold too, say that they are open.
    if "properties" in closed and closed.get("additionalProperties", True) is True:
        closed["additionalProperties"] = False
    return closed


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, request in REQUESTS.items():
        schema = close(TypeAdapter(request).json_schema())
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=1))


main()
