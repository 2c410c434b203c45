"""A remote server on the `mcp` packages from PyPI, for tests of the HTTP transports.

    remote.py PORT

Serves Streamable HTTP of both eras at /mcp.
"""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("remote", instructions="Adds numbers and reads a note.")


@server.tool
def add(a: int, b: int) -> int:
    """Add two whole numbers"""
    return a + b


@server.tool
async def count_up(steps: int, context: Context) -> str:
    """Count, and tell of every step"""
    for step in range(steps):
        await context.report_progress(step + 1, steps)
    return f"counted to {steps}"


@server.resource("note://shopping")
def shopping() -> str:
    """What to buy"""
    return "milk and bread"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody"""
    return f"Say hello to {name}."


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
