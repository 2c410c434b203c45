"""Drives a gateway with the `mcp` package from PyPI, over Streamable HTTP."""

import sys

sys.dont_write_bytecode = True

import asyncio
from contextlib import AsyncExitStack
from importlib.metadata import version

import mcp_types
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
from mcp import Client

task = Task()
report = Report("python-mcp", version("mcp"), task)
changed = asyncio.Event()


async def on_message(message):
    if isinstance(message, mcp_types.ToolListChangedNotification):
        report["list_changed"] += 1
        changed.set()


async def on_progress(progress, total, message):
    report["progress"] += 1


async def pages(fetch, key):
    found, cursor = [], None
    while True:
        # Each listing is to reach the server; a modern client may answer from its cache.
        page = await fetch(cursor=cursor, cache_mode="bypass")
        found += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def steps(client):
    if task.era == "modern":
        report.at = "server/discover"
        await discover(client.session)
    modern = is_modern(client.protocol_version)
    offers = client.server_capabilities
    report["protocol"] = client.protocol_version
    report["server"] = client.server_info and client.server_info.name

    async with report.step("tools/list"):
        report["tools_before"] = [tool.name for tool in await pages(client.list_tools, "tools")]

    async with AsyncExitStack() as listening:
        if modern and offers.tools and offers.tools.list_changed:
            async with report.step("subscriptions/listen"):
                subscription = await listening.enter_async_context(client.listen(tools_list_changed=True))
                report["listen"] = subscription.honored.model_dump(by_alias=True, exclude_none=True)

        async with report.step("search"):
            changed.clear()
            found = await client.call_tool(*task.search())
            report["search"] = content_text(found.content)
            if found.is_error:
                report.fail(report["search"])
        # The list of a modern connection does not change with what was called on it.
        if task.dialect == "gateway" and not modern:
            async with report.step("tools/list_changed"):
                await wait_for_change(changed)
        async with report.step("tools/list again"):
            report["tools_after"] = [tool.name for tool in await pages(client.list_tools, "tools")]

        if task.tool:
            async with report.step("call"):
                name, arguments = task.call()
                answer = await client.call_tool(name, arguments, progress_callback=on_progress)
                report["call"] = content_text(answer.content)
                report["call_is_error"] = bool(answer.is_error)

    if offers.prompts:
        async with report.step("prompts/list"):
            report["prompts"] = [prompt.name for prompt in await pages(client.list_prompts, "prompts")]
    if task.prompt:
        async with report.step("prompts/get"):
            prompt = await client.get_prompt(task.prompt, task.prompt_arguments)
            report["prompt"] = prompt_text(prompt.messages)
    if offers.resources:
        async with report.step("resources/list"):
            report["resources"] = [str(found.uri) for found in await pages(client.list_resources, "resources")]
    if task.resource:
        async with report.step("resources/read"):
            resource = await client.read_resource(task.resource, cache_mode="bypass")
            report["resource"] = resource_text(resource.contents)


run(report, Client(task.url, mode=MODES[task.era], message_handler=on_message), steps)
