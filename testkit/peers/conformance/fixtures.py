"""What the Python servers of the conformance runs have in common."""

import json
import re
from pathlib import Path

import mcp_types as types
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

FIXTURES = json.loads((Path(__file__).parent / "fixtures.json").read_text())
STEP_SECONDS = 0.05
TEMPLATE_ID = re.compile(r"test://template/([^/]+)/data")

QUESTIONS = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


def pick(source, *keys):
    return {key: source[key] for key in keys if key in source}


def input_schema(tool):
    return tool.get("inputSchema") or {"type": "object", "properties": {}}


def fill(value, known):
    """Replaces `{path.to.value}` in all strings below `value` by what is known."""
    if isinstance(value, dict):
        return {key: fill(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, known) for inner in value]
    return re.sub(r"\{([\w.]+)\}", lambda match: look_up(match[1], known), value) if isinstance(value, str) else value


def look_up(path, known):
    for key in path.split("."):
        known = known.get(key) if isinstance(known, dict) else None
    return known if isinstance(known, str) else json.dumps(known)


def words(typed):
    return [word for word in FIXTURES["words"] if word.startswith(typed)]


def template_data(identifier):
    return json.dumps({"id": identifier, "templateTest": True, "data": f"Data for ID: {identifier}"})


def capability(question):
    return question["method"].split("/")[0]


class Call:
    """One request, and what its client can be asked."""

    def __init__(self, session, request_id, responses, state):
        self.session = session
        self.request_id = request_id
        self.responses = responses or {}
        self.state = json.loads(state) if state else {}

    @property
    def is_modern(self):
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def declared(self):
        capabilities = self.session.client_capabilities
        return capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities else {}

    def require(self, name):
        if name not in self.declared:
            data = {"requiredCapabilities": {name: {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client does not offer {name}", data)

    async def ask_on_connection(self, question):
        self.require(capability(question))
        request, result = QUESTIONS[question["method"]]
        metadata = ServerMessageMetadata(related_request_id=self.request_id)
        answer = await self.session.send_request(request.model_validate(question), result, metadata=metadata)
        return answer.model_dump(by_alias=True, exclude_none=True, mode="json")

    async def gather(self, fixture, known):
        """Asks all rounds of questions; an `input_required` result if the client must come back."""
        comes_back = self.is_modern and not fixture.get("onConnection")
        known.update(self.state)
        for questions in fill(fixture.get("rounds", []), known):
            if fixture.get("withinCapabilities"):
                questions = {key: ask for key, ask in questions.items() if capability(ask) in self.declared}
            for key, question in questions.items():
                if key in known:
                    continue
                if not comes_back:
                    known[key] = await self.ask_on_connection(question)
                elif key in self.responses and is_answer(question, self.responses[key]):
                    known[key] = self.responses[key]
            if missing := {key: ask for key, ask in questions.items() if key not in known}:
                return self.input_required(fixture, known, missing)
        return None

    def input_required(self, fixture, known, missing):
        for question in missing.values():
            self.require(capability(question))
        result = {"resultType": "input_required", "inputRequests": missing}
        if fixture.get("state"):
            result["requestState"] = json.dumps({key: known[key] for key in known if key != "arguments"})
        return result


def is_answer(question, answer):
    """Whether an answer is complete; an error if it answers something else."""
    try:
        QUESTIONS[question["method"]][1].model_validate(answer)
    except ValueError as error:
        raise MCPError(types.INVALID_PARAMS, f"no answer to {question['method']}: {error}") from error
    if answer.get("action") != "accept":
        return True
    wanted = question["params"]["requestedSchema"].get("required", [])
    return all(key in (answer.get("content") or {}) for key in wanted)


class Events(EventStore):
    """All events of all streams, in memory, so that a closed stream can be resumed."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.events[last - 1][0]
        for at, (owner, message) in enumerate(self.events[last:], last + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(at)))
        return stream
