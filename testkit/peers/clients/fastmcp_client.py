"""Drives a gateway with FastMCP's client, over Streamable HTTP."""

import sys

sys.dont_write_bytecode = True

import asyncio
from importlib.metadata import version

from common import (
    MODES,
    Report,
    Task,
    content_text,
    discover,
    is_modern,
    prompt_text,
    resource_text,
    run,
    wait_for_change,
)
from fastmcp import Client
from fastmcp.client.messages import MessageHandler

task = Task()
report = Report("fastmcp", version("fastmcp"), task)
changed = asyncio.Event()


class Changes(MessageHandler):
    async def on_tool_list_changed(self, message):
        report["list_changed"] += 1
        changed.set()


async def on_progress(progress, total, message):
    report["progress"] += 1


async def steps(client):
    session = client.session
    if task.era == "modern":
        report.at = "server/discover"
        await discover(session)
    modern = is_modern(session.protocol_version)
    offers = session.server_capabilities
    report["protocol"] = session.protocol_version
    report["server"] = session.server_info and session.server_info.name

    async with report.step("tools/list"):
        report["tools_before"] = [tool.name for tool in await client.list_tools()]
    async with report.step("search"):
        changed.clear()
        found = await client.call_tool(*task.search(), raise_on_error=False)
        report["search"] = content_text(found.content)
        if found.is_error:
            report.fail(report["search"])
    # The list of a modern connection does not change with what was called on it.
    if task.dialect == "gateway" and not modern:
        async with report.step("tools/list_changed"):
            await wait_for_change(changed)
    async with report.step("tools/list again"):
        report["tools_after"] = [tool.name for tool in await client.list_tools()]
    if task.tool:
        async with report.step("call"):
            name, arguments = task.call()
            answer = await client.call_tool(name, arguments, progress_handler=on_progress, raise_on_error=False)
            report["call"] = content_text(answer.content)
            report["call_is_error"] = answer.is_error

    if offers.prompts:
        async with report.step("prompts/list"):
            report["prompts"] = [prompt.name for prompt in await client.list_prompts()]
    if task.prompt:
        async with report.step("prompts/get"):
            prompt = await client.get_prompt(task.prompt, task.prompt_arguments)
            report["prompt"] = prompt_text(prompt.messages)
    if offers.resources:
        async with report.step("resources/list"):
            report["resources"] = [str(resource.uri) for resource in await client.list_resources()]
    if task.resource:
        async with report.step("resources/read"):
            report["resource"] = resource_text(await client.read_resource(task.resource))


run(report, Client(task.url, mode=MODES[task.era], message_handler=Changes()), steps)
