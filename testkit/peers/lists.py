"""A server with prompts, templates and completions, on FastMCP or on `mcp` from PyPI.

    lists.py fastmcp|mcp

Speaks both eras on its pipes. Pages of FastMCP hold two entries; `mcp` has no pages.
"""

import sys

sys.dont_write_bytecode = True

from mcp_types import Completion

PACKAGE = sys.argv[1]
THEMES = ["nature", "navigation", "winter"]
NOTES = ["milk", "mint", "salt"]

if PACKAGE == "fastmcp":
    from fastmcp import FastMCP

    server = FastMCP(PACKAGE, list_page_size=2)
else:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer(PACKAGE)


def text(value: str):
    def answer() -> str:
        return value

    return answer


for number in range(5):
    server.tool(name=f"tool_{number}")(text(f"tool {number} of {PACKAGE}"))
    server.prompt(name=f"prompt_{number}")(text(f"prompt {number} of {PACKAGE}"))
    server.resource(f"page://{number}", name=f"page {number}")(text(f"page {number} of {PACKAGE}"))


@server.prompt(name="poem")
def poem(theme: str) -> str:
    """A poem"""
    return f"Write a poem about {theme} for {PACKAGE}."


@server.resource("note://{name}", name="note")
def note(name: str) -> str:
    """A note"""
    return f"{name} of {PACKAGE}"


@server.resource("memo://{year}/{name}", name="memo")
def memo(year: str, name: str) -> str:
    """A memo"""
    return f"{name} of {year} of {PACKAGE}"


@server.resource("card://{name}", name="card")
def card(name: str) -> str:
    """A card"""
    return f"card {name} of {PACKAGE}"


@server.completion()
async def complete(ref, argument, context):
    known = {"theme": THEMES, "name": NOTES}.get(argument.name)
    if known is None:
        return None
    year = ((context.arguments if context else None) or {}).get("year", "")
    values = [value + year for value in known if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


if PACKAGE == "fastmcp":
    server.run(show_banner=False, log_level="error")
else:
    server.run()
