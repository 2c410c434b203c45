"""Holds a long conversation by means of a provider's own SDK, as a program would:

    converse.py BASE_URL anthropic|chat|responses|gemini plain|streamed < task.json

The task has a `model`, `tools` (`name`, `description`, `parameters`), `questions`, and on Responses
`chain`, whether to go on by `previous_response_id`. Each question is asked, calls are answered, until
the model has nothing to call. Prints one JSON object: what the SDK's own assembler made of each answer.
`faults` lists what is not as the SDK's types say, and what does not follow the rules of a stream.
"""

import sys

sys.dont_write_bytecode = True

import json

from judge import checked, faults, of_kind

URL, WIRE, MODE = sys.argv[1:]
TASK = json.load(sys.stdin)
STREAMED = MODE == "streamed"
SDK = dict(api_key="a-key", max_retries=0, timeout=60)
# Answers to one question; a model that calls for longer is in a loop.
MOST = 12

answers = []


def result(number, arguments):
    """What a tool of ours gives: the same for the same call."""
    return f"result {number} for {json.dumps(arguments, sort_keys=True)}"


def note(calls, text, stop, usage, thinking=""):
    answers.append({"calls": calls, "text": text, "stop": stop, "thinking": thinking, "usage": usage})


class Rules:
    """The order of the events of one stream."""

    def __init__(self):
        self.kinds = []
        self.indices = []
        self.last = -1

    def once(self, kind):
        if self.kinds.count(kind) != 1:
            faults.add(f"{self.kinds.count(kind)} events `{kind}` in one stream")

    def next_index(self, index):
        if index != len(self.indices):
            faults.add(f"index {index} follows {len(self.indices)} others")
        self.indices.append(index)


def anthropic():
    from anthropic import Anthropic

    client = Anthropic(base_url=URL, **SDK)
    tools = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in TASK["tools"]
    ]
    messages = []
    body = dict(model=TASK["model"], max_tokens=4000, tools=tools, messages=messages)
    if TASK.get("thinking"):
        body["thinking"] = {"type": "enabled", "budget_tokens": 2000}

    def ask():
        if not STREAMED:
            return checked(client.messages.create(**body))
        rules = Rules()
        with client.messages.stream(**body) as stream:
            for event in stream:
                rules.kinds.append(event.type)
                if event.type == "content_block_start":
                    rules.next_index(event.index)
                checked(event)
            message = checked(stream.get_final_message())
        for kind in ("message_start", "message_delta", "message_stop"):
            rules.once(kind)
        return message

    for question in TASK["questions"]:
        messages.append({"role": "user", "content": question})
        for _ in range(MOST):
            message = ask()
            calls = of_kind(message.content, "tool_use")
            text = "".join(block.text for block in of_kind(message.content, "text"))
            thinking = "".join(block.thinking for block in of_kind(message.content, "thinking"))
            used = message.usage
            usage = [used.input_tokens, used.output_tokens, used.cache_read_input_tokens]
            note([[call.name, call.input] for call in calls], text, message.stop_reason, usage, thinking)
            messages.append({"role": "assistant", "content": message.content})
            if not calls:
                break
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result(number, call.input)}
                for number, call in enumerate(calls)
            ]
            messages.append({"role": "user", "content": results})


def chat():
    from openai import OpenAI

    client = OpenAI(base_url=URL, **SDK)
    tools = [{"type": "function", "function": {**tool, "strict": True}} for tool in TASK["tools"]]
    messages = []
    body = dict(model=TASK["model"], tools=tools, messages=messages)

    def ask():
        if not STREAMED:
            return checked(client.chat.completions.create(**body))
        rules = Rules()
        with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
            for event in stream:
                if event.type != "chunk":
                    continue
                chunk = checked(event.chunk)
                rules.kinds += ["usage"] if chunk.usage else []
                rules.kinds += [chunk.id] if chunk.id not in rules.kinds else []
                for choice in chunk.choices:
                    rules.kinds += ["role"] if choice.delta.role else []
                    rules.kinds += ["finish"] if choice.finish_reason else []
                    for call in choice.delta.tool_calls or []:
                        if call.id:
                            rules.next_index(call.index)
            completion = stream.get_final_completion()
        for kind in ("role", "finish", "usage"):
            rules.once(kind)
        if len(set(rules.kinds) - {"role", "finish", "usage"}) != 1:
            faults.add(f"several ids in one stream: {rules.kinds}")
        return completion

    for question in TASK["questions"]:
        messages.append({"role": "user", "content": question})
        for _ in range(MOST):
            completion = ask()
            said = completion.choices[0].message
            calls = said.tool_calls or []
            called = [[call.function.name, json.loads(call.function.arguments)] for call in calls]
            used = completion.usage
            cached = used.prompt_tokens_details.cached_tokens
            usage = [used.prompt_tokens, used.completion_tokens, cached]
            note(called, said.content or "", completion.choices[0].finish_reason, usage)
            messages.append(said.model_dump(exclude_unset=True, include={"role", "content", "tool_calls"}))
            if not calls:
                messages[-1].pop("tool_calls", None)
                break
            # What the stream helper has parsed is its own.
            for made in messages[-1]["tool_calls"]:
                made["function"].pop("parsed_arguments", None)
                made.pop("index", None)
            for number, call in enumerate(calls):
                content = result(number, called[number][1])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def responses():
    from openai import OpenAI

    client = OpenAI(base_url=URL, **SDK)
    chain = TASK.get("chain", False)
    items, previous = [], None
    tools = [{"type": "function", **tool, "strict": True} for tool in TASK["tools"]]

    def ask():
        body = dict(model=TASK["model"], tools=tools, input=items, store=chain)
        if previous:
            body["previous_response_id"] = previous
        if not chain:
            body["include"] = ["reasoning.encrypted_content"]
        if not STREAMED:
            return checked(client.responses.create(**body))
        rules = Rules()
        with client.responses.stream(**body) as stream:
            for event in stream:
                rules.kinds.append(event.type)
                if event.sequence_number <= rules.last:
                    faults.add(f"sequence number {event.sequence_number} after {rules.last}")
                rules.last = event.sequence_number
                if event.type == "response.output_item.added":
                    rules.next_index(event.output_index)
                # The last one holds what the helper has parsed.
                if event.type != "response.completed":
                    checked(event)
            response = stream.get_final_response()
        for kind in ("response.created", "response.in_progress", "response.completed"):
            rules.once(kind)
        if len(response.output) != len(rules.indices):
            faults.add(f"{len(response.output)} items of which {len(rules.indices)} were announced")
        return response

    for question in TASK["questions"]:
        items.append({"role": "user", "content": question})
        for _ in range(MOST):
            response = ask()
            calls = of_kind(response.output, "function_call")
            called = [[call.name, json.loads(call.arguments)] for call in calls]
            thoughts = of_kind(response.output, "reasoning")
            thinking = "".join(part.text for item in thoughts for part in item.summary)
            used = response.usage
            usage = [used.input_tokens, used.output_tokens, used.input_tokens_details.cached_tokens]
            note(called, response.output_text, response.status, usage, thinking)
            if chain:
                previous = response.id
                items.clear()
            else:
                for item in response.output:
                    items.append(item.model_dump(exclude_unset=True, exclude={"parsed_arguments": True}, warnings=False))
                    for part in items[-1].get("content") or []:
                        part.pop("parsed", None)
            if not calls:
                break
            for number, call in enumerate(calls):
                output = result(number, called[number][1])
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


def gemini():
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=SDK["api_key"], http_options=types.HttpOptions(base_url=URL))
    declarations = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
        )
        for tool in TASK["tools"]
    ]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declarations)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents = []

    def ask():
        body = dict(model=TASK["model"], contents=contents, config=config)
        models = client.models
        chunks = models.generate_content_stream(**body) if STREAMED else [models.generate_content(**body)]
        chunks = [checked(chunk) for chunk in chunks]
        ends = [chunk for chunk in chunks if chunk.candidates and chunk.candidates[0].finish_reason]
        if len(ends) != 1:
            faults.add(f"{len(ends)} finish reasons in one answer")
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        parts = [part for one in candidates if one.content for part in one.content.parts or []]
        return parts, chunks[-1]

    for question in TASK["questions"]:
        contents.append(types.Content(role="user", parts=[types.Part(text=question)]))
        for _ in range(MOST):
            parts, last = ask()
            calls = [part.function_call for part in parts if part.function_call]
            text = "".join(part.text or "" for part in parts if not part.thought)
            used = last.usage_metadata
            usage = [used.prompt_token_count, used.candidates_token_count, used.cached_content_token_count or 0]
            note([[call.name, call.args] for call in calls], text, last.candidates[0].finish_reason.value, usage)
            contents.append(types.Content(role="model", parts=parts))
            if not calls:
                break
            replies = [
                types.FunctionResponse(id=call.id, name=call.name, response={"output": result(number, call.args)})
                for number, call in enumerate(calls)
            ]
            contents.append(
                types.Content(role="user", parts=[types.Part(function_response=reply) for reply in replies])
            )


def main():
    converse = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}[WIRE]
    try:
        converse()
    except Exception as error:
        # What was understood until then is told as well.
        faults.add(f"{type(error).__name__}: {error}")
    print(json.dumps({"answers": answers, "faults": sorted(faults)}))


main()
