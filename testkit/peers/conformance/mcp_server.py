"""A server on the Python package `mcp` with the fixtures of the conformance suite.

    python mcp_server.py --stdio
    python mcp_server.py --http PORT
"""

import asyncio
import sys
import warnings

import mcp_types as types
import uvicorn
from fixtures import FIXTURES, STEP_SECONDS, TEMPLATE_ID, Call, Events, fill, input_schema, pick, template_data, words
from mcp.server import CacheHint, NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

# Logging and sampling are deprecated in the new revision, and part of what is tested.
warnings.filterwarnings("ignore")

NAME = "conformance-python"
TOOLS = {tool["name"]: tool for tool in FIXTURES["tools"]}
PROMPTS = {prompt["name"]: prompt for prompt in FIXTURES["prompts"]}
RESOURCES = {resource["uri"]: resource for resource in FIXTURES["resources"]}
CACHEABLE = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
]

events = InMemorySubscriptionBus()
revision = {"tools": 1, "prompts": 1}


def call_of(ctx):
    params = ctx.params or {}
    return Call(ctx.session, ctx.request_id, params.get("inputResponses"), params.get("requestState"))


def typed(handle):
    """Adds the type of a result, which the modern era requires."""

    async def handle_typed(ctx, params):
        result = await handle(ctx, params)
        return {"resultType": "complete", **result} if call_of(ctx).is_modern else result

    return handle_typed


async def list_tools(ctx, params):
    tools = [{**pick(tool, "name", "description"), "inputSchema": input_schema(tool)} for tool in TOOLS.values()]
    return {"tools": fill(tools, {"revision": revision})}


async def work(ctx, call, tool):
    """What a tool does before it asks or answers."""
    if "require" in tool:
        call.require(tool["require"])
    for progress in tool.get("report", []):
        await ctx.session.report_progress(progress, 100)
        await asyncio.sleep(STEP_SECONDS)
    for text in tool.get("log", []):
        await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
        await asyncio.sleep(STEP_SECONDS)
    if tool.get("closeStream"):
        await asyncio.sleep(STEP_SECONDS)
        if ctx.close_sse_stream:
            await ctx.close_sse_stream()
        await asyncio.sleep(4 * STEP_SECONDS)
    if "change" in tool:
        await announce(ctx, call, tool["change"])


async def announce(ctx, call, changed):
    revision[changed] += 1
    if call.is_modern:
        await events.publish(ToolsListChanged() if changed == "tools" else PromptsListChanged())
    elif changed == "tools":
        await ctx.session.send_tool_list_changed()
    else:
        await ctx.session.send_prompt_list_changed()


async def call_tool(ctx, params):
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"unknown tool: {params.name}")
    call, known = call_of(ctx), {"arguments": params.arguments or {}}
    await work(ctx, call, tool)
    if unfinished := await call.gather(tool, known):
        return unfinished
    if "error" in tool:
        return {"isError": True, "content": [{"type": "text", "text": tool["error"]}]}
    return {"content": tool.get("content") or [{"type": "text", "text": fill(tool["reply"], known)}]}


async def list_resources(ctx, params):
    return {"resources": [pick(resource, "uri", "name", "description", "mimeType") for resource in RESOURCES.values()]}


async def list_templates(ctx, params):
    return {"resourceTemplates": [FIXTURES["template"]]}


async def read_resource(ctx, params):
    if params.uri in RESOURCES:
        return {"contents": [pick(RESOURCES[params.uri], "uri", "mimeType", "text", "blob")]}
    match = TEMPLATE_ID.fullmatch(params.uri)
    if match is None:
        code = types.INVALID_PARAMS if call_of(ctx).is_modern else -32002
        raise MCPError(code, "resource not found", {"uri": params.uri})
    return {"contents": [{"uri": params.uri, "mimeType": "application/json", "text": template_data(match[1])}]}


async def list_prompts(ctx, params):
    prompts = [pick(prompt, "name", "description", "arguments") for prompt in PROMPTS.values()]
    return {"prompts": fill(prompts, {"revision": revision})}


async def get_prompt(ctx, params):
    prompt = PROMPTS.get(params.name)
    if prompt is None:
        raise MCPError(types.INVALID_PARAMS, f"unknown prompt: {params.name}")
    known = {"arguments": params.arguments or {}}
    if unfinished := await call_of(ctx).gather(prompt, known):
        return unfinished
    return {"messages": [{"role": "user", "content": content} for content in fill(prompt["content"], known)]}


async def complete(ctx, params):
    values = words(params.argument.value)
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


async def acknowledge(ctx, params):
    return {}


def create():
    hint = CacheHint(ttl_ms=0, scope="private")
    server = Server(
        NAME,
        version="1",
        cache_hints={method: hint for method in CACHEABLE},
        on_list_tools=typed(list_tools),
        on_call_tool=typed(call_tool),
        on_list_resources=typed(list_resources),
        on_list_resource_templates=typed(list_templates),
        on_read_resource=typed(read_resource),
        on_subscribe_resource=acknowledge,
        on_unsubscribe_resource=acknowledge,
        on_subscriptions_listen=ListenHandler(events),
        on_list_prompts=typed(list_prompts),
        on_get_prompt=typed(get_prompt),
        on_completion=typed(complete),
        on_set_logging_level=acknowledge,
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


async def serve_stdio(server):
    options = server.create_initialization_options(NotificationOptions(prompts_changed=True, tools_changed=True))
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, options)


def main():
    match sys.argv[1:]:
        case ["--stdio"]:
            asyncio.run(serve_stdio(create()))
        case ["--http", port]:
            app = create().streamable_http_app(event_store=Events(), retry_interval=100)
            uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")
        case _:
            sys.exit("usage: mcp_server.py --stdio | --http PORT")


main()
