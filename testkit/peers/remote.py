"""A remote server on the `mcp` packages from PyPI, for tests of the HTTP transports.

    remote.py PORT [--login]

Serves Streamable HTTP of both eras at /mcp; with --login only to those who have logged in, which
everybody may.
"""

import sys

from fastmcp import Context, FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions

auth = None
if "--login" in sys.argv:
    auth = InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{sys.argv[1]}",
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["tools"]),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["tools"],
    )

server = FastMCP("remote", instructions="Adds numbers and reads a note.", auth=auth)


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
