"""A remote server with tasks on FastMCP, with what the `tasks-*` scenarios of the conformance suite call.

    tasks.py PORT
"""

import sys

sys.dont_write_bytecode = True

import asyncio

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult

server = FastMCP("tasks")
server.add_extension(TasksExtension())


@server.tool
def greet(name: str) -> str:
    """Greet at once"""
    return f"Hello, {name}!"


@server.tool(task=True)
async def slow_compute(seconds: float = 0, label: str = "") -> str:
    """Take a while"""
    await asyncio.sleep(seconds)
    return f"{label} took {seconds} s"


@server.tool(task=TaskConfig(mode="required"))
async def failing_job() -> str:
    """Fail after a second; only as a task"""
    await asyncio.sleep(1)
    raise ToolError("the job failed")


@server.tool(task=True)
async def protocol_error_job() -> str:
    """Fail with an error of the protocol"""
    raise MCPError(code=-32603, message="a protocol error")


def ask(*keys: str) -> InputRequiredResult:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    params = {"mode": "form", "message": "What?", "requestedSchema": schema}
    requests = {key: {"method": "elicitation/create", "params": params} for key in keys}
    return InputRequiredResult.model_validate({"resultType": "input_required", "inputRequests": requests})


@server.tool(task=True)
async def confirm_delete(context: Context, filename: str) -> str:
    """Ask one thing"""
    return f"{filename} was deleted" if context.input_responses else ask("confirm")


@server.tool(task=True)
async def multi_input(context: Context) -> str:
    """Ask two things at once"""
    answers = context.input_responses or {}
    missing = [key for key in ("first", "second") if key not in answers]
    return ask(*missing) if missing else "both were answered"


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
