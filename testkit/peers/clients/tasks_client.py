"""Calls a tool as a task with FastMCP's client.

    tasks_client.py URL whole          calls a tool and waits for its result
    tasks_client.py URL begin          begins a task and prints its id
    tasks_client.py URL end ID         waits for the end of a task
"""

import sys

sys.dont_write_bytecode = True

import asyncio

from fastmcp import Client
from fastmcp_tasks.client import call_tool_task
from fastmcp_tasks.client_models import ClientGetTaskResult, GetTaskRequest, GetTaskRequestParams


async def main(url: str, step: str, task_id: str = "") -> None:
    async with Client(url, mode="auto") as client:
        if step == "whole":
            result = await client.call_tool("slow_compute", {"seconds": 0.1, "label": "whole"})
            print(result.data)
        elif step == "begin":
            print((await call_tool_task(client, "slow_compute", {"seconds": 2, "label": "restart"})).task_id)
        else:
            while True:
                request = GetTaskRequest(params=GetTaskRequestParams(task_id=task_id))
                found = await client.session.send_request(request, ClientGetTaskResult)
                if found.status != "working":
                    print(found.status, found.result["content"][0]["text"])
                    return
                await asyncio.sleep(0.1)


asyncio.run(main(*sys.argv[1:]))
