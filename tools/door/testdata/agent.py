import asyncio, json, sys

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, token):
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + token}) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(*streams[:2]) as session:
                await session.initialize()
                print(*sorted(t.name for t in (await session.list_tools()).tools))

                async def call(tool, **args):
                    r = await session.call_tool(tool, args)
                    text = json.loads(r.content[0].text)["type"] if r.is_error else ""
                    print(tool, json.dumps(r.structured_content), text)

                for _ in range(2):
                    await call("lasting_add", key="a//ü", arg=5, idempotency_key="k")
                await call("lasting_add", key="a//ü", arg="x")
                await call("odd__kind__shop_put", key="", arg={"id": "7", "at": "2026-01-02T03:04:05Z", "for": 1, "raw": "AA==", "named": None, "pair": [1, 2]})
                await call("rows", arg=2)
                await session.call_tool("train_start", {"run": "r", "arg": {"id": "7"}})
                await call("train_result", run="r", wait="30s")


asyncio.run(main(*sys.argv[1:]))
