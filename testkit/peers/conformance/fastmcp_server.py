"""A server on FastMCP with the fixtures of the conformance suite.

    python fastmcp_server.py --stdio
    python fastmcp_server.py --http PORT
"""

import asyncio
import base64
import sys
import warnings

import mcp_types as types
import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message, Prompt, PromptResult
from fastmcp.prompts.base import InputRequiredPromptResult, PromptArgument
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from fixtures import FIXTURES, STEP_SECONDS, Call, Events, fill, input_schema, template_data, words
from pydantic import TypeAdapter

# Logging and sampling are deprecated in the new revision, and part of what is tested.
warnings.filterwarnings("ignore")

BLOCKS = TypeAdapter(list[types.ContentBlock])

mcp = FastMCP("conformance-fastmcp", version="1")


def call_of(ctx):
    responses = ctx.input_responses or {}
    plain = {key: answer.model_dump(by_alias=True, exclude_none=True, mode="json") for key, answer in responses.items()}
    return Call(ctx.session, ctx.request_id, plain, ctx.request_state)


class FixtureTool(Tool):
    """A tool that does what its fixture says."""

    fixture: dict

    async def run(self, arguments):
        ctx, known = get_context(), {"arguments": arguments}
        call = call_of(ctx)
        await self.work(ctx, call)
        if unfinished := await call.gather(self.fixture, known):
            return InputRequiredToolResult(types.InputRequiredResult.model_validate(unfinished))
        if "error" in self.fixture:
            raise ToolError(self.fixture["error"])
        content = self.fixture.get("content") or [{"type": "text", "text": fill(self.fixture["reply"], known)}]
        return ToolResult(content=BLOCKS.validate_python(content))

    async def work(self, ctx, call):
        if "require" in self.fixture:
            call.require(self.fixture["require"])
        for progress in self.fixture.get("report", []):
            await ctx.report_progress(progress, 100)
            await asyncio.sleep(STEP_SECONDS)
        for text in self.fixture.get("log", []):
            await ctx.info(text)
            await asyncio.sleep(STEP_SECONDS)
        if self.fixture.get("closeStream"):
            await asyncio.sleep(STEP_SECONDS)
            await ctx.close_sse_stream()
            await asyncio.sleep(4 * STEP_SECONDS)
        if self.fixture.get("change") == "tools":
            await ctx.send_notification(types.ToolListChangedNotification())
        if self.fixture.get("change") == "prompts":
            await ctx.send_notification(types.PromptListChangedNotification())


class FixturePrompt(Prompt):
    """A prompt that says what its fixture says."""

    fixture: dict

    async def render(self, arguments=None):
        known = {"arguments": arguments or {}}
        if unfinished := await call_of(get_context()).gather(self.fixture, known):
            return InputRequiredPromptResult(types.InputRequiredResult.model_validate(unfinished))
        contents = BLOCKS.validate_python(fill(self.fixture["content"], known))
        return PromptResult([Message(content) for content in contents])


def described(fixture):
    """The description, at the only revision that this server has."""
    return fill(fixture["description"], {"revision": {"tools": 1, "prompts": 1}})


def add_resource(fixture):
    content = fixture["text"] if "text" in fixture else base64.b64decode(fixture["blob"])

    @mcp.resource(
        fixture["uri"], name=fixture["name"], description=fixture["description"], mime_type=fixture["mimeType"]
    )
    def read():
        return ResourceResult([ResourceContent(content, mime_type=fixture["mimeType"])])


@mcp.resource(
    FIXTURES["template"]["uriTemplate"],
    name=FIXTURES["template"]["name"],
    description=FIXTURES["template"]["description"],
    mime_type=FIXTURES["template"]["mimeType"],
)
def read_template(id: str):
    return ResourceResult([ResourceContent(template_data(id), mime_type=FIXTURES["template"]["mimeType"])])


@mcp.completion
def complete(reference, argument, context):
    return words(argument.value)


def main():
    for tool in FIXTURES["tools"]:
        mcp.add_tool(
            FixtureTool(
                name=tool["name"], description=described(tool), parameters=input_schema(tool), fixture=tool
            )
        )
    for prompt in FIXTURES["prompts"]:
        arguments = [PromptArgument(**argument) for argument in prompt.get("arguments", [])]
        mcp.add_prompt(
            FixturePrompt(name=prompt["name"], description=described(prompt), arguments=arguments, fixture=prompt)
        )
    for resource in FIXTURES["resources"]:
        add_resource(resource)
    match sys.argv[1:]:
        case ["--stdio"]:
            mcp.run(transport="stdio", show_banner=False)
        case ["--http", port]:
            app = mcp.http_app(event_store=Events(), retry_interval=100)
            uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")
        case _:
            sys.exit("usage: fastmcp_server.py --stdio | --http PORT")


main()
