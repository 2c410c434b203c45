"""Holds a conversation with the scripted provider by means of a provider's own SDK:

    drive.py URL anthropic|chat|responses|gemini

The script has to call `get_weather` and then to answer, twice: first for a client that waits,
then for one that streams. Prints one JSON object with what the SDK understood of either.
`faults` lists what is not as the SDK's types say; the SDKs themselves take almost anything.
"""

import sys

sys.dont_write_bytecode = True

import json

from judge import checked, faults, of_kind

URL, WIRE = sys.argv[1:]
SDK = dict(api_key="a-key", max_retries=0, timeout=60)
QUESTION = "What is the weather in Rome?"
RESULT = "sunny"
NAME = "get_weather"
DESCRIPTION = "The weather of a city"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}

def anthropic(is_streamed):
    from anthropic import Anthropic

    client = Anthropic(base_url=URL, **SDK)
    messages = [{"role": "user", "content": QUESTION}]
    body = dict(
        model="claude-opus-4-8",
        max_tokens=4000,
        thinking={"type": "enabled", "budget_tokens": 2000},
        tools=[
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            {"name": NAME, "description": DESCRIPTION, "input_schema": PARAMETERS, "defer_loading": True},
        ],
        messages=messages,
    )

    def ask():
        if not is_streamed:
            return checked(client.messages.create(**body))
        with client.messages.stream(**body) as stream:
            for event in stream:
                checked(event)
            return checked(stream.get_final_message())

    def text(message):
        return "".join(block.text for block in of_kind(message.content, "text"))

    first = ask()
    [call] = of_kind(first.content, "tool_use")
    messages.append({"role": "assistant", "content": first.content})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
    messages.append({"role": "user", "content": [result]})
    second = ask()
    return {
        "kinds": [block.type for block in first.content],
        "thinking": "".join(block.thinking for block in of_kind(first.content, "thinking")),
        "text": text(first),
        "call": [call.name, call.input],
        "stops": [first.stop_reason, second.stop_reason],
        "answer": text(second),
        "is_counted": second.usage.input_tokens > 0 and second.usage.output_tokens > 0,
    }


def chat(is_streamed):
    from openai import OpenAI

    client = OpenAI(base_url=f"{URL}/v1", **SDK)
    function = {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS, "strict": True}
    messages = [{"role": "user", "content": QUESTION}]
    body = dict(model="gpt-5.4", tools=[{"type": "function", "function": function}], messages=messages)

    def ask():
        if not is_streamed:
            return checked(client.chat.completions.create(**body))
        with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
            for event in stream:
                if event.type == "chunk":
                    checked(event.chunk)
            return stream.get_final_completion()

    first = ask()
    said = first.choices[0].message
    [call] = said.tool_calls
    messages.append(said.model_dump(exclude_unset=True, include={"role", "content", "tool_calls"}))
    # What the stream helper has parsed is its own.
    for made in messages[-1]["tool_calls"]:
        made["function"].pop("parsed_arguments", None)
        made.pop("index", None)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    second = ask()
    return {
        "kinds": [call.type],
        "thinking": "",
        "text": said.content,
        "call": [call.function.name, json.loads(call.function.arguments)],
        "stops": [first.choices[0].finish_reason, second.choices[0].finish_reason],
        "answer": second.choices[0].message.content,
        "is_counted": second.usage.prompt_tokens > 0 and second.usage.completion_tokens > 0,
    }


def responses(is_streamed):
    from openai import OpenAI

    client = OpenAI(base_url=f"{URL}/v1", **SDK)
    tool = {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS}
    space = {"type": "namespace", "name": "weather", "description": "The weather"}
    items = [{"role": "user", "content": QUESTION}]
    body = dict(
        model="gpt-5.4",
        store=False,
        include=["reasoning.encrypted_content"],
        tools=[{"type": "tool_search"}, {**space, "tools": [{**tool, "strict": True, "defer_loading": True}]}],
        input=items,
    )

    def ask():
        if not is_streamed:
            return checked(client.responses.create(**body))
        with client.responses.stream(**body) as stream:
            for event in stream:
                # The last one holds what the helper has parsed.
                if event.type != "response.completed":
                    checked(event)
            return stream.get_final_response()

    first = ask()
    [call] = of_kind(first.output, "function_call")
    for item in first.output:
        items.append(item.model_dump(exclude_unset=True, exclude={"parsed_arguments": True}, warnings=False))
    for message in of_kind(first.output, "message"):
        for part in items[1 + first.output.index(message)]["content"]:
            part.pop("parsed", None)
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})
    second = ask()
    thoughts = of_kind(first.output, "reasoning")
    return {
        "kinds": [item.type for item in first.output],
        "thinking": "".join(part.text for item in thoughts for part in item.summary),
        "text": first.output_text,
        "call": [call.name, json.loads(call.arguments)],
        "stops": [first.status, second.status],
        "answer": second.output_text,
        "is_counted": second.usage.input_tokens > 0 and second.usage.output_tokens > 0,
    }


def gemini(is_streamed):
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=SDK["api_key"], http_options=types.HttpOptions(base_url=URL))
    declaration = types.FunctionDeclaration(name=NAME, description=DESCRIPTION, parameters_json_schema=PARAMETERS)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    contents = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]

    def ask():
        body = dict(model="gemini-3-pro", contents=contents, config=config)
        models = client.models
        answers = models.generate_content_stream(**body) if is_streamed else [models.generate_content(**body)]
        answers = [checked(answer) for answer in answers]
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or []]
        return parts, answers[-1]

    def text(parts, is_thought):
        return "".join(part.text or "" for part in parts if bool(part.thought) == is_thought)

    def kind(part):
        return "call" if part.function_call else "thought" if part.thought else "text"

    said, first = ask()
    [call] = [part.function_call for part in said if part.function_call]
    contents.append(types.Content(role="model", parts=said))
    response = types.FunctionResponse(id=call.id, name=call.name, response={"output": RESULT})
    contents.append(types.Content(role="user", parts=[types.Part(function_response=response)]))
    answer, second = ask()
    used = second.usage_metadata
    return {
        # Text comes in any number of parts.
        "kinds": list(dict.fromkeys(kind(part) for part in said)),
        "thinking": text(said, True),
        "text": text(said, False),
        "call": [call.name, call.args],
        "stops": [one.candidates[0].finish_reason.value for one in (first, second)],
        "answer": text(answer, False),
        "is_counted": used.prompt_token_count > 0 and used.candidates_token_count > 0,
    }


def main():
    drive = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}[WIRE]
    report = {"plain": drive(False), "streamed": drive(True)}
    print(json.dumps({**report, "faults": sorted(faults)}))


main()
