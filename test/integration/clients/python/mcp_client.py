import json

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from driver import base, key, serve


async def models():
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
        async with streamable_http_client(base + "/mcp", http_client=client) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                found = await session.call_tool("list_models", {})
    return sorted(model["id"] for model in json.loads(found.content[0].text)["data"])


serve({"mcp": models})
