"""A FastMCP proxy with BM25 search in front of the servers of a configuration, on stdio.

    python fastmcp_search.py CONFIG

One connection per server for all requests: with a client that is not connected yet, FastMCP
starts every server again for every request.
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.server import create_proxy
from fastmcp.server.transforms.search import BM25SearchTransform


async def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    async with Client(config) as client:
        proxy = create_proxy(client)
        proxy.add_transform(BM25SearchTransform())
        await proxy.run_async(transport="stdio", show_banner=False)


asyncio.run(main())
