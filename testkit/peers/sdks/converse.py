"""Holds conversations by means of the providers' own SDKs, as a program would:

    converse.py < tasks.jsonl

Each line is a task, and its report is one line of JSON: what the SDK's own assembler made of each answer.
Each question is asked, and calls are answered, until the model has nothing to call. `faults` lists what is
not as the SDK's types say, and what does not follow the rules of a stream.

A task has the base `url`, the `wire` (`anthropic`, `chat`, `responses` or `gemini`), whether it is
`streamed`, the `model`, `tools` (`name`, `description`, `parameters`) and `questions`. Optional:

    chain     on Responses: go on by `previous_response_id`
    count     also ask for the tokens of the request that would come next, as `counted`
    force     the number of a question and the name of the tool that its answer must call
    goOn      go on with the conversation of the task before
    strict    whether schemas are strict (default: yes)
    thinking  on Messages: whether the model thinks
"""

import sys

sys.dont_write_bytecode = True

import json

from judge import checked, faults, of_kind

SDK = dict(api_key="a-key", max_retries=0, timeout=60)
# Answers to one question; a model that calls for longer is in a loop.
MOST = 12
# What is said where only tokens are asked for.
LAST = "And now?"

# The task, the report on it, and the history of the conversation.
TASK, REPORT, PAST = {}, {}, {}


def result(number, arguments):
    """What a tool of ours gives: the same for the same call."""
    return f"result {number} for {json.dumps(arguments, sort_keys=True)}"


def note(calls, text, stop, usage, thinking=""):
    REPORT["answers"].append({"calls": calls, "text": text, "stop": stop, "thinking": thinking, "usage": usage})


def questions(messages, message):
    """Yields the tool that the first answer to a question must call, if any, with the question in the history."""
    force = TASK.get("force", [None, None])
    for number, question in enumerate(TASK["questions"]):
        messages.append(message(question))
        yield force[1] if number == force[0] else None


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

    client = Anthropic(base_url=TASK["url"], **SDK)
    tools = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in TASK["tools"]
    ]
    messages = PAST["items"]
    body = dict(model=TASK["model"], tools=tools, messages=messages)
    if TASK.get("thinking"):
        body["thinking"] = {"type": "enabled", "budget_tokens": 2000}

    def user(text):
        return {"role": "user", "content": text}

    def ask(forced):
        body["max_tokens"] = 4000
        body.pop("tool_choice", None)
        if forced:
            body["tool_choice"] = {"type": "tool", "name": forced}
        if not TASK["streamed"]:
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

    for forced in questions(messages, user):
        for round in range(MOST):
            message = ask(forced if round == 0 else None)
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
    if TASK.get("count"):
        body["messages"] = [*messages, user(LAST)]
        body.pop("max_tokens")
        REPORT["counted"] = checked(client.messages.count_tokens(**body)).input_tokens


def chat():
    from openai import ContentFilterFinishReasonError, LengthFinishReasonError, OpenAI

    client = OpenAI(base_url=TASK["url"], **SDK)
    tools = [{"type": "function", "function": {**tool, "strict": TASK.get("strict", True)}} for tool in TASK["tools"]]
    messages = PAST["items"]
    body = dict(model=TASK["model"], tools=tools, messages=messages)

    def user(text):
        return {"role": "user", "content": text}

    def ask(forced):
        body.pop("tool_choice", None)
        if forced:
            body["tool_choice"] = {"type": "function", "function": {"name": forced}}
        if not TASK["streamed"]:
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
            try:
                completion = stream.get_final_completion()
            except (ContentFilterFinishReasonError, LengthFinishReasonError) as stopped:
                # The helper takes these ends for errors.
                completion = stopped.completion
        for kind in ("role", "finish", "usage"):
            rules.once(kind)
        if len(set(rules.kinds) - {"role", "finish", "usage"}) != 1:
            faults.add(f"several ids in one stream: {rules.kinds}")
        return completion

    for forced in questions(messages, user):
        for round in range(MOST):
            completion = ask(forced if round == 0 else None)
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

    client = OpenAI(base_url=TASK["url"], **SDK)
    chain = TASK.get("chain", False)
    items = PAST["items"]
    tools = [{"type": "function", **tool, "strict": TASK.get("strict", True)} for tool in TASK["tools"]]

    def user(text):
        return {"role": "user", "content": text}

    def request():
        body = dict(model=TASK["model"], tools=tools, input=items)
        if PAST.get("previous"):
            body["previous_response_id"] = PAST["previous"]
        return body

    def ask(forced):
        body = dict(request(), store=chain)
        if forced:
            body["tool_choice"] = {"type": "function", "name": forced}
        if not chain:
            body["include"] = ["reasoning.encrypted_content"]
        if not TASK["streamed"]:
            return checked(client.responses.create(**body))
        rules, response = Rules(), None
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
                if event.type == "response.incomplete":
                    response = event.response
            response = response or stream.get_final_response()
        last = "response.completed" if response.status == "completed" else "response.incomplete"
        for kind in ("response.created", "response.in_progress", last):
            rules.once(kind)
        if len(response.output) != len(rules.indices):
            faults.add(f"{len(response.output)} items of which {len(rules.indices)} were announced")
        return response

    for forced in questions(items, user):
        for round in range(MOST):
            response = ask(forced if round == 0 else None)
            calls = of_kind(response.output, "function_call")
            called = [[call.name, json.loads(call.arguments)] for call in calls]
            thoughts = of_kind(response.output, "reasoning")
            thinking = "".join(part.text for item in thoughts for part in item.summary)
            used = response.usage
            usage = [used.input_tokens, used.output_tokens, used.input_tokens_details.cached_tokens]
            stop = response.incomplete_details.reason if response.incomplete_details else response.status
            note(called, response.output_text, stop, usage, thinking)
            if chain:
                PAST["previous"] = response.id
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
    if TASK.get("count"):
        body = dict(request(), input=[*items, user(LAST)])
        REPORT["counted"] = checked(client.responses.input_tokens.count(**body)).input_tokens


def gemini():
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=SDK["api_key"], http_options=types.HttpOptions(base_url=TASK["url"]))
    declarations = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
        )
        for tool in TASK["tools"]
    ]
    contents = PAST["items"]

    def user(text):
        return types.Content(role="user", parts=[types.Part(text=text)])

    def configure(forced):
        choice = types.FunctionCallingConfig(mode="ANY", allowed_function_names=[forced]) if forced else None
        return types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=declarations)],
            tool_config=types.ToolConfig(function_calling_config=choice) if choice else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def ask(forced):
        body = dict(model=TASK["model"], contents=contents, config=configure(forced))
        models = client.models
        chunks = models.generate_content_stream(**body) if TASK["streamed"] else [models.generate_content(**body)]
        chunks = [checked(chunk) for chunk in chunks]
        ends = [chunk for chunk in chunks if chunk.candidates and chunk.candidates[0].finish_reason]
        if len(ends) != 1:
            faults.add(f"{len(ends)} finish reasons in one answer")
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        parts = [part for one in candidates if one.content for part in one.content.parts or []]
        return parts, chunks[-1]

    for forced in questions(contents, user):
        for round in range(MOST):
            parts, last = ask(forced if round == 0 else None)
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
    if TASK.get("count"):
        # This SDK refuses tools here.
        body = dict(model=TASK["model"], contents=[*contents, user(LAST)])
        REPORT["counted"] = checked(client.models.count_tokens(**body)).total_tokens


def main():
    wires = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}
    for line in sys.stdin:
        TASK.clear()
        TASK.update(json.loads(line))
        REPORT.clear()
        REPORT["answers"] = []
        faults.clear()
        if not TASK.get("goOn"):
            PAST.clear()
            PAST["items"] = []
        try:
            wires[TASK["wire"]]()
        except Exception as error:
            # What was understood until then is told as well.
            faults.add(f"{type(error).__name__}: {error}")
        print(json.dumps({**REPORT, "faults": sorted(faults)}), flush=True)


main()
