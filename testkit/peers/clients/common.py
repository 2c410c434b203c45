"""What the Python clients share: the task, the report and its one line of output."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import mcp_types

# Generous, as machines may be busy: some clients start a program for every step.
TOTAL_SECONDS = 300
# How long a client waits for the news that a search changed its tool list.
CHANGE_SECONDS = 60
# Closing is part of the exercise, but a peer that does not answer must not hide the report.
CLOSE_SECONDS = 60

# What the SDK calls each era.
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class Task:
    """What to do, from the arguments and the environment."""

    def __init__(self):
        try:
            self.url, self.era, self.dialect = sys.argv[1:]
            known = self.era in MODES and self.dialect in ("bridge", "gateway")
        except ValueError:
            known = False
        if not known:
            sys.exit(f"usage: {os.path.basename(sys.argv[0])} URL legacy|modern|auto bridge|gateway")
        self.query = os.environ.get("PEG_QUERY", "echo a message")
        self.tool = os.environ.get("PEG_TOOL")
        self.arguments = json.loads(os.environ.get("PEG_ARGS", "{}"))
        self.prompt = os.environ.get("PEG_PROMPT")
        self.prompt_arguments = json.loads(os.environ.get("PEG_PROMPT_ARGS", "{}"))
        self.resource = os.environ.get("PEG_RESOURCE")

    def search(self):
        name = "search_tools" if self.dialect == "bridge" else "search_available_tools"
        return name, {"query": self.query}

    def call(self):
        if self.dialect == "bridge" or self.era == "modern":
            return "call_tool", {"name": self.tool, "arguments": self.arguments}
        return self.tool, self.arguments


class Report:
    """What happened, printed as one JSON object whatever happened."""

    def __init__(self, client, version, task):
        self.values = {
            "client": client,
            "version": version,
            "era": task.era,
            "dialect": task.dialect,
            "protocol": None,
            "server": None,
            "tools_before": None,
            "listen": None,
            "search": None,
            "list_changed": 0,
            "tools_after": None,
            "call": None,
            "call_is_error": None,
            "progress": 0,
            "prompts": None,
            "prompt": None,
            "resources": None,
            "resource": None,
            "errors": [],
        }
        self.at = "connect"

    def __setitem__(self, key, value):
        self.values[key] = value

    def __getitem__(self, key):
        return self.values[key]

    def fail(self, message):
        self.values["errors"].append(f"{self.at}: {message}")

    @asynccontextmanager
    async def step(self, name):
        """One failing step is a line in the report; the steps after it still run."""
        self.at = name
        try:
            yield
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.fail(describe(error))

    def finish(self):
        print(json.dumps(self.values, ensure_ascii=False), flush=True)
        for error in self.values["errors"]:
            print(f"{self.values['client']}: {error}", file=sys.stderr)
        # Not sys.exit: a transport that cannot close must not hold the process.
        sys.stderr.flush()
        os._exit(1 if self.values["errors"] else 0)


def describe(error):
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


def run(report, connection, steps):
    """Enters `connection`, runs `steps` inside it and prints the report, all in bounded time."""

    async def inside():
        async with connection as client:
            await steps(client)
            report.at = "close"
            asyncio.get_running_loop().call_later(CLOSE_SECONDS, late_close)

    def late_close():
        report.fail(f"not closed within {CLOSE_SECONDS} s")
        report.finish()

    async def bounded():
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                await inside()
        except TimeoutError:
            report.fail(f"not done within {TOTAL_SECONDS} s")
        except Exception as error:
            report.fail(describe(error))
        report.finish()

    asyncio.run(bounded())


async def discover(session):
    """A client that pins its version connects without a word: ask what the server offers."""
    raw = await session.send_discover(MODES["modern"])
    session.adopt(mcp_types.DiscoverResult.model_validate(raw))


async def wait_for_change(changed):
    try:
        await asyncio.wait_for(changed.wait(), CHANGE_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"not heard within {CHANGE_SECONDS} s") from None


def is_modern(protocol):
    return protocol >= "2026"


def content_text(blocks):
    return "\n".join(getattr(block, "text", f"[{block.type}]") for block in blocks)


def prompt_text(messages):
    return "\n".join(f"{message.role}: {content_text([message.content])}" for message in messages)


def resource_text(contents):
    return "\n".join(getattr(part, "text", "[blob]") for part in contents)
